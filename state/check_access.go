package state

import (
	"berth/internal/mvcc"
	"berth/state/check"
	"berth/state/schema"
)

// checkAccessIndexes checks the indexes of the tables of access control.
func checkAccessIndexes(c *check.Report) {
	check.Indexes(c, schema.ACLPolicies)
	check.Indexes(c, schema.ACLRoles)
	check.Indexes(c, schema.ACLTokens)
	check.Indexes(c, schema.ACLBootstraps)
	check.Indexes(c, schema.ACLModes)
	check.Indexes(c, schema.ACLAuthMethods)
	check.Indexes(c, schema.ACLBindingRules)
	check.Indexes(c, schema.ACLLoginMarks)
	check.Indexes(c, schema.ACLOneTimeTokens)
}

// countMethodTokens counts the tokens of all auth methods after a snapshot file was loaded.
func countMethodTokens(tx *mvcc.LoadTx) {
	// The order of the rows does not matter: each key comes once.
	for method, n := range tokensByMethod(tx) {
		schema.ACLMethodTokens.Insert(tx, &schema.MethodTokens{Method: method, Tokens: n})
	}
}

// tokensByMethod counts the tokens by the auth method that made them.
func tokensByMethod(tx mvcc.Reader) map[string]int {
	all := map[string]int{}
	for t := range schema.ACLTokens.Scan(tx) {
		if t.AuthMethod != "" {
			all[t.AuthMethod]++
		}
	}
	return all
}

// checkMethodTokens checks that each auth method has the number of its tokens.
func checkMethodTokens(c *check.Report) {
	kept := map[string]int{}
	for row := range schema.ACLMethodTokens.Scan(c) {
		kept[row.Method] = row.Tokens
	}
	check.WantCounts(c, "tokens of auth method", tokensByMethod(c), kept)
}
