// Package authmethod verifies logins by the configuration of an auth method, and decides which rights they
// give. It verifies the signature and the claims of a JWT, and the code that an OIDC provider gives to a
// browser. It calls the provider for its keys, its description and the claims of a person, within the
// bounds of Transport.
//
// MapClaims copies claims into values by the mappings of the method. DecideRights matches the selectors of
// binding rules with them, and puts them into the names of roles, policies and tokens. It knows no table: the
// names that it returns may not exist.
//
// AttemptLimits bounds the attempts to log in: of one source, all together, and under way. An
// attempt costs requests to a provider and checks of signatures, and its caller has no token yet.
package authmethod
