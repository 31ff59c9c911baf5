// Package rights decides whether the caller of a method may call it. The list line of each method names a
// Right, and the rights that single methods need are here, a file for each area. The server that serves a
// request asks its Gate, which finds the token of the request, merges the policies of the token and asks the
// Right.
//
// A node acts by its certificate or its secret and needs no token for its own methods: see CheckCertificate.
// A request without a token has what the policy "anonymous" gives.
package rights
