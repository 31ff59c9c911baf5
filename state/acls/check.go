package acls

import (
	"berth/state/check"
	"berth/state/schema"
)

// CheckIndexes checks the indexes of the tables of access control.
func CheckIndexes(c *check.Report) {
	check.Indexes(c, schema.ACLPolicies)
	check.Indexes(c, schema.ACLRoles)
	check.Indexes(c, schema.ACLTokens)
	check.Indexes(c, schema.ACLBootstraps)
	check.Indexes(c, schema.ACLAuthMethods)
	check.Indexes(c, schema.ACLBindingRules)
	check.Indexes(c, schema.ACLLoginMarks)
	check.Indexes(c, schema.ACLOneTimeTokens)
}
