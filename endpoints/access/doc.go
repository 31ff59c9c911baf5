// Package access has the procedures of access control: tokens with their policies and roles, logins, workload
// identities, variables, quotas and the rules of admission. Package rights decides about the callers of all
// methods.
package access
