// Package access has the rows and requests about who may do something, in the dialect's form: policies, roles
// and tokens, logins by a JWT, by OIDC or with a one-time token, identities of workloads, variables with
// their locks, and the tokens of Consul that the servers make for tasks of the service mesh.
//
// A login ends in a token. An identity is a signed token (JWT) that says which allocation, job and task its
// holder is. The servers sign it with a SigningKey, and anybody verifies it with the public keys. A variable
// has its items in encrypted form. Package acl reads the text of policies and decides, and the rules for
// paths and items of variables are in validate.
package access
