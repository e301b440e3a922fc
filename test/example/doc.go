// Package example proves that fleet-example, the fleet repository that users copy, builds and validates.
package example
