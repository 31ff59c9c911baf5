package helper

import (
	"testing"

	"berth/structs"
)

// A volume whose server never answers keeps each process that measures it.
func TestPools_AFullOneLeavesTheOthers(t *testing.T) {
	p := NewPools([]string{"/bin/true"})
	p.Use.running.Store(Max)
	_, err := p.Use.Output(t.Context())
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a full pool: %v", err)
	}
	for name, other := range map[string]*Pool{"health": p.Health, "heal": p.Heal} {
		_, err := other.Output(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
