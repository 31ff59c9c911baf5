// Package login has the rows and requests of logins, in the dialect's form: auth methods, binding rules,
// logins by a JWT or by OIDC, and one-time tokens. A login ends in a token of package access.
package login
