package csi_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/goleak"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startPlugin(t *testing.T, cfg csitest.Config) (*csitest.Plugin, *csi.Client) {
	t.Helper()
	return startPluginWith(t, cfg, csi.Options{})
}

func startPluginWith(t *testing.T, cfg csitest.Config, o csi.Options) (*csitest.Plugin, *csi.Client) {
	t.Helper()
	p := csitest.Start(t, cfg)
	c, err := csi.Dial(p.Endpoint(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

var both = csitest.Config{Controller: true, Node: true}

var oneWriter = []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem,
	AccessMode: structs.CSISingleNodeWriter}}

func createRequest(name string) *nodecalls.ClientCSICreateRequest {
	return &nodecalls.ClientCSICreateRequest{
		Name:         name,
		Capabilities: oneWriter,
		Capacity:     nodecalls.CSICapacityRange{RequiredBytes: 4096},
	}
}

func testUse(id string) csi.Use {
	return csi.Use{VolumeID: id, AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}
}

func TestDuty_A12_APluginThatComesLateOrAgainIsFound(t *testing.T) {
	p, err := csitest.New(both)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := csi.Dial(p.Endpoint(), csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Probe(t.Context()); !structs.IsKind(err, structs.KindUnavailable) || csi.Final(err) {
		t.Fatalf("nothing listens yet: %v", err)
	}
	for range 3 {
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { _, err := c.Probe(t.Context()); return err })
		p.Stop()
		if _, err := c.Probe(t.Context()); !structs.IsKind(err, structs.KindUnavailable) {
			t.Fatalf("stopped: %v", err)
		}
	}
}

// eventually repeats a call that fails fast; each round trips through the kernel, so it yields by itself.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestClient_MeasuresCalls(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	metrics := func(method, code string, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method+" "+code)
	}
	p, c := startPluginWith(t, both, csi.Options{Metrics: metrics})
	p.Fail("Probe", csitest.Error("Internal", "x"))
	_, _ = c.Probe(t.Context())
	_, _ = c.Probe(t.Context())
	if got := strings.Join(seen, ","); got != "Probe Internal,Probe OK" {
		t.Fatal(got)
	}
}

func TestDuty_C16_ALargeAnswerIsRead(t *testing.T) {
	p, c := startPlugin(t, both)
	resp := &spec.ListVolumesResponse{}
	for i := range 60_000 {
		resp.Entries = append(resp.Entries,
			&spec.ListVolumesResponse_Entry{Volume: &spec.Volume{VolumeId: fmt.Sprintf("%0100d", i)}})
	}
	p.Answer("ListVolumes", resp)
	l, err := c.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || len(l.Volumes) != 60_000 {
		t.Fatal(err)
	}
}

func TestDuty_A4_A9_EndpointForms(t *testing.T) {
	for in, want := range map[string]string{
		"unix:///csi/csi.sock": "/csi/csi.sock",
		"unix:/csi/csi.sock":   "/csi/csi.sock",
		"/csi/csi.sock":        "/csi/csi.sock",
		"unix://csi.sock":      "",
		"csi.sock":             "",
		"tcp://127.0.0.1:80":   "",
		"":                     "",
	} {
		got, err := csi.SocketPath(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", in, got, err)
		}
		if err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := csi.Dial("x", csi.Options{}); err == nil {
		t.Error("dialled a relative path")
	}
}

func TestClient_ClosedIsUnavailable(t *testing.T) {
	_, c := startPlugin(t, both)
	_ = c.Close()
	_, err := c.Probe(t.Context())
	var e *structs.Error
	if !errors.As(err, &e) || csi.Final(err) {
		t.Fatalf("%v", err)
	}
}
