// Package issuer verifies logins by the configuration of an auth method: the signature and the claims of a
// JWT, and the code that an OIDC provider gives to a browser. It calls the provider for its keys, its
// description and the claims of a person, within the bounds of package issuerhttp.
package issuer
