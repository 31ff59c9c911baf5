package control

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestConfig_ValidateNamesAllFaults(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := DefaultConfig()
	c.CallsPerPlugin, c.GCInterval = 0, -1
	err := c.Validate()
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "calls per plugin") || !strings.Contains(err.Error(), "gc interval") {
		t.Errorf("got %v", err)
	}
}
