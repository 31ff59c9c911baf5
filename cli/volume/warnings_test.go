package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

// The servers store secrets without encryption while they have no root key.
func TestVolumeCommands_ShowTheWarningsOfTheServers(t *testing.T) {
	answer := structs.CSIVolumeRegisterResponse{
		Volumes:  []*structs.CSIVolume{{ID: "data", CSIVolumeSpec: structs.CSIVolumeSpec{ExternalID: "ext"}}},
		Warnings: "the secrets are stored without encryption",
	}
	c := &apitest.Caller{}
	apitest.Answer(c, structs.CSIVolumeRegister, answer)
	apitest.Answer(c, structs.CSIVolumeCreate, answer)
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	file := filepath.Join(t.TempDir(), "volume.hcl")
	const text = `id = "data"
plugin_id = "hostpath"
external_id = "ext"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`
	err := os.WriteFile(file, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"register", "create"} {
		code, out, errs := runArgs(t, []string{"volume", verb, "-address", addr, file})
		if code != 0 || !strings.Contains(out+errs, "Warning: "+answer.Warnings) {
			t.Errorf("volume %s: exit code %d, got %s%s", verb, code, out, errs)
		}
	}
}
