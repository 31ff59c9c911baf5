// Package quota has the specifications of quotas and the requests about them, in the dialect's form. Package
// quotause has the arithmetic of their use.
package quota
