package manager

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/structs"
	"berth/structs/nodecalls"
)

// strictDriver accepts configs with a key "ok" only.
type strictDriver struct{ driver.Driver }

func (strictDriver) Name() string { return "strict" }

func (strictDriver) Validate(config map[string]any) error {
	if config["ok"] == nil {
		return errors.New("ok: missing")
	}
	return nil
}

func TestManager_ValidatesConfigs(t *testing.T) {
	m := newManager([]driver.Driver{strictDriver{}}, hclog.NewNullLogger())
	req := &nodecalls.ClientDriverValidateRequest{
		Driver:  "strict",
		Configs: []map[string]any{{"ok": true}, {}, nil},
	}
	got, err := m.validateConfigs(t.Context(), req)
	if err != nil || !slices.Equal(got.Faults, []string{"", "ok: missing", "ok: missing"}) {
		t.Errorf("got %+v, error %v", got, err)
	}
	if !got.LeavesReferences {
		t.Error("the answer does not say that values with references are left open")
	}
	_, err = m.validateConfigs(t.Context(), &nodecalls.ClientDriverValidateRequest{Driver: "other"})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("another driver: got %v, want invalid", err)
	}
}
