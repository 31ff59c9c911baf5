// Package access has the rows of access control and the requests about them: policies, roles and tokens, in
// the dialect's form. Package acl reads the text of policies and decides.
package access
