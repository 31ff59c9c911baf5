package match

import (
	"testing"

	"berth/structs"
)

func TestConstraints_OfEachOperand(t *testing.T) {
	n := &structs.Node{
		ID:         "id-1",
		Name:       "host",
		Datacenter: "dc1",
		NodeClass:  "big",
		NodePool:   "default",
		Attributes: map[string]string{
			"kernel.name":     "linux",
			"kernel.version":  "6.1.0",
			"cpu.numcores":    "10",
			"unique.hostname": "h",
			"empty":           "",
			"pre":             "1.7.0-beta1",
			"tags":            "ssd, fast,local",
		},
		Meta: map[string]string{"rack": "r1", "weight": "2.5"},
	}
	for _, c := range []struct {
		left, operand, right string
		want                 bool
	}{
		{"${attr.kernel.name}", "=", "linux", true},
		{"${attr.kernel.name}", "==", "linux", true},
		{"${attr.kernel.name}", "is", "linux", true},
		{"${attr.kernel.name}", "=", "Linux", false},
		{"${attr.nothing}", "=", "", false},
		{"${attr.empty}", "=", "", true},
		{"${attr.nothing}", "!=", "x", true},
		{"${attr.kernel.name}", "!=", "linux", false},
		{"${attr.kernel.name}", "not", "windows", true},
		{"${attr.nothing}", "!=", "${attr.nothing}", false},
		{"${attr.nothing}", "not", "${meta.nothing}", false},
		{"${attr.nothing}", "!=", "", false},
		{"${attr.nothing}", "!=", "${attr.kernel.name}", true},
		{"${node.unique.id}", "=", "id-1", true},
		{"${node.unique.name}", "=", "host", true},
		{"${node.datacenter}", "=", "dc1", true},
		{"${node.class}", "=", "big", true},
		{"${node.pool}", "=", "default", true},
		{"${node.nonsense}", "is_set", "", false},
		{"${meta.rack}", "=", "r1", true},
		{`${meta["rack"]}`, "=", "r1", true},
		{"r1", "=", "${meta.rack}", true},
		{"a", "=", "a", true},
		{"${attr.cpu.numcores}", ">", "9", true},
		{"${attr.cpu.numcores}", ">=", "10", true},
		{"${attr.cpu.numcores}", "<", "9", false},
		{"${attr.cpu.numcores}", "<=", "10", true},
		{"${meta.weight}", "<", "2.6", true},
		{"9007199254740993", ">", "9007199254740992", true}, // equal as floating-point numbers
		{"nan", "<", "1", false},                            // no number, and behind it as a text
		{"${meta.rack}", "<", "r2", true},
		{"${meta.rack}", ">", "r2", false},
		{"${attr.nothing}", "<", "1", false},
		{"${attr.kernel.name}", "regexp", "^li.*x$", true},
		{"${attr.kernel.name}", "regexp", "(", false},
		{"${attr.nothing}", "regexp", ".*", false},
		{"${attr.kernel.version}", "version", ">= 6.0, < 7.0", true},
		{"${attr.kernel.version}", "version", "~> 5.4", false},
		{"${attr.kernel.version}", "version", "nonsense", false},
		{"${attr.kernel.name}", "version", ">= 1.0", false},
		{"${attr.pre}", "version", ">= 1.6.0", false}, // a pre-release is no version of a release line
		{"${attr.pre}", "semver", ">= 1.6.0", true},   // in semver it is just before its release
		{"${attr.pre}", "semver", ">= 1.7.0", false},
		{"${attr.pre}", "semver", "> 1.6.0, != 1.7.0, <= 1.7.0", true},
		{"${attr.pre}", "semver", "= 1.7.0-beta1", true},
		{"${attr.pre}", "semver", "~> 1.7", false}, // not of the dialect: the registration rejects it
		{"${attr.pre}", "semver", ">= v1.2.0", true},
		{"${attr.pre}", "semver", ">v1.7.0,<2.0.0", false},
		{"${attr.pre}", "semver", "1.7.0-beta1+build", true},
		{"${attr.kernel.name}", "semver", ">= 1.0.0", false},
		{"${attr.tags}", "set_contains", "ssd,fast", true},
		{"${attr.tags}", "set_contains_all", "ssd,slow", false},
		{"${attr.tags}", "set_contains_all", "local,ssd", true},
		{"${attr.tags}", "set_contains_any", "slow,local", true},
		{"${attr.tags}", "set_contains_any", "slow", false},
		{"${attr.nothing}", "set_contains", "", false},
		{"${attr.kernel.name}", "is_set", "", true},
		{"${attr.empty}", "is_set", "", true},
		{"${attr.nothing}", "is_set", "", false},
		{"${attr.nothing}", "is_not_set", "", true},
		{"${attr.kernel.name}", "is_not_set", "", false},
		{"${attr.kernel.name}", "resembles", "linux", false},
	} {
		compiled := CompileConstraints([]*structs.Constraint{{
			LTarget: c.left,
			Operand: c.operand,
			RTarget: c.right,
		}})
		for range 2 { // the second time from memory
			if got := compiled[0].MetBy(n); got != c.want {
				t.Errorf("%s %s %s: %v", c.left, c.operand, c.right, got)
			}
		}
	}
	if got := CompileConstraints([]*structs.Constraint{nil,
		{Operand: structs.ConstraintDistinctHosts}}); len(got) != 0 {
		t.Errorf("compiled %+v", got)
	}
}
