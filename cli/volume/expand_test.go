package volume_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

// expandingCluster serves a volume whose expansion keeps failing. The request for it ends when the
// volume was read and its explanation is asked for.
func expandingCluster(t *testing.T, volume structs.CSIVolume) (addr string) {
	t.Helper()
	c := &apitest.Caller{}
	wasRead := make(chan struct{})
	var once sync.Once
	type got = structs.CSIVolumeGetResponse
	apitest.On(c, structs.CSIVolumeGet, func(context.Context, *structs.CSIVolumeGetRequest) (*got, error) {
		return &got{Volume: &structs.CSIVolumeDetail{CSIVolume: volume}}, nil
	})
	type why = structs.WhyResponse
	apitest.On(c, structs.VolumeWhy, func(context.Context, *structs.CSIVolumeGetRequest) (*why, error) {
		once.Do(func() { close(wasRead) })
		return &why{}, nil
	})
	type put = structs.CSIVolumeRegisterResponse
	type request = structs.CSIVolumeRegisterRequest
	apitest.On(c, structs.CSIVolumeCreate, func(ctx context.Context, _ *request) (*put, error) {
		select {
		case <-wasRead:
		case <-ctx.Done():
		}
		return nil, structs.Errorf(structs.KindTimeout, "volume %q is still expanding", volume.ID)
	})
	return clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
}

// A volume that has not grown yet does not have the requested size, although its state is ready.
func TestVolumeCreate_DoesNotReportAGrowingVolumeAsReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "volume.hcl")
	const text = `id = "data"
plugin_id = "hostpath"
capacity_min = "10MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`
	err := os.WriteFile(file, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ready := structs.CSIVolume{
		ID: "data", Namespace: "default",
		CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "hostpath", RequestedCapacityMin: 10 << 20},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	}
	atPlugin, onNode := ready, ready
	atPlugin.ExpandPending = true
	atPlugin.LastError = &structs.OperationError{
		Code:     "Internal",
		Message:  "the array is full",
		Attempts: 1,
	}
	onNode.NodeExpandBytes = 10 << 20
	for name, c := range map[string]struct {
		volume structs.CSIVolume
		says   string
	}{
		"its plugin fails": {atPlugin, `Volume "data" is being expanded: Internal: the array is full`},
		"its node has not": {onNode,
			`Volume "data" is being expanded: 10 MiB: its content grows at the next mount`},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"volume", "create", "-address", expandingCluster(t, c.volume), file}
			code, out, errs := runArgs(t, args)
			if code != structs.KindTimeout.ExitCode() ||
				!strings.Contains(errs, "still expanding") {
				t.Errorf("got exit code %d: %q", code, errs)
			}
			if !strings.Contains(out+errs, c.says) ||
				strings.Contains(out+errs, "is ready") {
				t.Errorf("got the output %s%s", out, errs)
			}
		})
	}
}
