package state

import (
	"berth/internal/mvcc"
	"berth/state/schema"
)

// checkAccessIndexes checks the indexes of the tables of access control.
func checkAccessIndexes(c *schema.Report) {
	schema.CheckIndexes(c, schema.ACLPolicies)
	schema.CheckIndexes(c, schema.ACLRoles)
	schema.CheckIndexes(c, schema.ACLTokens)
	schema.CheckIndexes(c, schema.ACLBootstraps)
	schema.CheckIndexes(c, schema.ACLModes)
	schema.CheckIndexes(c, schema.ACLAuthMethods)
	schema.CheckIndexes(c, schema.ACLBindingRules)
	schema.CheckIndexes(c, schema.ACLLoginMarks)
	schema.CheckIndexes(c, schema.ACLOneTimeTokens)
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
func checkMethodTokens(c *schema.Report) {
	kept := map[string]int{}
	for row := range schema.ACLMethodTokens.Scan(c) {
		kept[row.Method] = row.Tokens
	}
	schema.CheckCounts(c, "tokens of auth method", tokensByMethod(c), kept)
}
