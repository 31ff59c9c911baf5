// Package binding decides which rights the claims of a login give. It copies claims into values by the
// mappings of an auth method, matches the selectors of binding rules with them, and puts them into the names
// of roles, policies and tokens. It knows no table: the names that it returns may not exist.
package binding
