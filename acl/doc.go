// Package acl reads access policies and decides with them. A policy gives capabilities in namespaces, and
// rights on nodes, agents, servers, quotas, plugins, host volumes and node pools. The dialect has the same
// format and names. Two things are additions to the dialect: rules for single volumes, and capabilities for
// jobs that reach beyond their sandbox. docs/operations/acl.md describes both.
//
// The package knows no tokens, rows or requests. It has two steps. Parse turns the text of a policy into
// rules and rejects what it does not know. New merges the rules of several policies into an ACL, which never
// changes and answers many goroutines.
//
// How rules are merged:
//   - Of the patterns that match a name, one decides alone: the name itself, otherwise the pattern whose
//     wildcards stand for the fewest characters.
//   - The rules of several policies for the same pattern add up.
//   - A rule that denies ends what other policies give for the same pattern.
//   - What no rule gives is denied.
package acl
