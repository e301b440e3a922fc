// Command regions shows promotion: three regions, each a control plane of its own with a reconciler of its own, and one repository.
// A good commit passes canary, us-east-1 and eu-west-1 one after the other; one that fails on the canary goes no further; the fix
// goes through. Nothing connects the regions but the statuses on the commits. A step out of order ends it with an error.
//
//	make demo-regions              about three minutes, exit code 0 if everything went as expected
package main
