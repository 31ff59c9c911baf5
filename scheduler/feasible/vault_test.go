package feasible

import (
	"strings"
	"testing"

	"berth/structs"
)

// TestGroup_NeedsAVaultForItsTokens: a node that has reached no Vault takes no group with a block vault.
func TestGroup_NeedsAVaultForItsTokens(t *testing.T) {
	group := &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{{Name: "t", Vault: &structs.Vault{}}}}
	constraint := &Group{TaskGroup: group}
	constraint.addVaultConstraint()
	for version, wanted := range map[string]bool{"": false, "1.14.10": true} {
		n := &structs.Node{Attributes: map[string]string{}}
		if version != "" {
			n.Attributes["vault.version"] = version
		}

		why := meetsConstraints(constraint, n)
		if (why == "") != wanted || !wanted && !strings.Contains(why, "vault.version") {
			t.Errorf("%q: got %q", version, why)
		}
	}

	plain := &Group{TaskGroup: &structs.TaskGroup{Tasks: []*structs.Task{{Name: "t"}}}}
	plain.addVaultConstraint()
	if len(plain.constraints) != 0 || len(plain.specified) != 0 {
		t.Error("a group without the block has a constraint")
	}
}
