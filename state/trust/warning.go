package trust

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/access"
)

// Warning names the first part of a job that waits for a signed identity that no server can sign. It is ""
// if nothing waits. The leader makes the signing keys soon after the first root key, so a cluster that has a
// root key and no signing key yet needs nothing from the user.
func Warning(tx mvcc.Reader, j *structs.Job) string {
	if ActiveSigningKey(tx, access.KeyEdDSA) != nil || ActiveRootKey(tx) != nil {
		return ""
	}

	for _, g := range j.TaskGroups {
		part := waits(g)
		if part == "" {
			continue
		}
		return fmt.Sprintf("group %q: %s: the allocation waits for its signed identity, and the cluster has no "+
			"root key to sign with: give the servers a keyring (server.keyring)",
			structs.Cut(g.Name, structs.MaxQuoted), part)
	}
	return ""
}

// waits returns the first task or service of a group that needs a token before the tasks start, "" if none
// does.
func waits(g *structs.TaskGroup) string {
	for _, t := range g.Tasks {
		for i := range structs.TaskIdentities(t) {
			if structs.AwaitsIdentity(i) {
				return fmt.Sprintf("task %q", structs.Cut(t.Name, structs.MaxQuoted))
			}
		}
	}
	for s := range g.AllServices() {
		if s.Identity != nil {
			return fmt.Sprintf("service %q", structs.Cut(s.Name, structs.MaxQuoted))
		}
	}
	return ""
}
