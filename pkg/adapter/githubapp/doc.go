// Package githubapp turns the key of a GitHub App into the short-lived token of one of its installations. The token opens
// repositories over https (user x-access-token) and the API alike, so fetching, commit statuses and comments share one [Tokens].
//
//	app, err := githubapp.FromSecret(data)        // the keys of a Secret, as Flux names them
//	token, err := tokens.Token(ctx, app, dialer)  // from the cache, or new
//
// A token is kept in memory until shortly before its end, and goes to nobody but the caller: no error and no String holds one.
package githubapp
