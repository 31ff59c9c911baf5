// Package identity has the rows and requests about the identities of workloads. An identity is a signed token
// (JWT) that says which allocation, job and task its holder is. The servers sign it with a SigningKey, and
// anybody verifies it with the public keys.
package identity
