// Package docs holds the documentation to what the product does: every manifest that a page shows is accepted, every
// command of the Makefile that it names exists, and every link leads somewhere.
package docs
