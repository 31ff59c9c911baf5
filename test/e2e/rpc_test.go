package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/snaparchive"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// requestGuesser fills requests with values of which some mean something to the agent.
type requestGuesser struct {
	rnd   *rand.Rand
	words []string
	good  map[string]any // fields, or type.fields, that mostly have valid values, so that the others are checked
}

func (g *requestGuesser) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 && g.rnd.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && g.rnd.IntN(5) > 0 {
				g.fill(v.Field(i), depth)
			}
			good, ok := g.good[v.Type().Name()+"."+v.Type().Field(i).Name]
			if !ok {
				good, ok = g.good[v.Type().Field(i).Name]
			}
			if ok && g.rnd.IntN(20) > 0 {
				v.Field(i).Set(reflect.ValueOf(good).Convert(v.Field(i).Type()))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || depth <= 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), g.rnd.IntN(3), 3))
		for i := range v.Len() {
			g.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth <= 0 || v.Type().Key().Kind() != reflect.String {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range g.rnd.IntN(3) {
			key := reflect.New(v.Type().Key()).Elem()
			value := reflect.New(v.Type().Elem()).Elem()
			g.fill(key, depth)
			g.fill(value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(g.word()))
		}
	case reflect.String:
		v.SetString(g.word())
	case reflect.Bool:
		v.SetBool(g.rnd.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt([]int64{0, 1, -1, 2, 50, 1 << 40, -1 << 62}[g.rnd.IntN(7)] >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		v.SetUint([]uint64{0, 1, 2, 1 << 20, 1<<64 - 1}[g.rnd.IntN(5)] >> (64 - v.Type().Bits()))
	}
}

func (g *requestGuesser) word() string {
	return g.words[g.rnd.IntN(len(g.words))]
}

// TestRPC_GuessedRequestsKeepTheInvariants calls every procedure with requests of the right form and random
// content, some of it in the node's own name. None may panic, the server may not stop, and the state keeps
// its invariants.
func TestRPC_GuessedRequestsKeepTheInvariants(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", example(t, "counter.hcl"))
	alloc := a.awaitRunning("counter", 1)[0]
	secret := func(name string) string {
		text, err := os.ReadFile(a.data("client", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	rnd := rand.New(rand.NewPCG(seedOf(t), 0))
	g := &requestGuesser{
		rnd: rnd,
		words: []string{"", "x", "*", "default", "counter", "hostpath", "g", "t",
			secret("node-id"), secret("node-id"), secret("secret-id"), secret("secret-id"), alloc.ID, alloc.EvalID,
			structs.NewID(),
			"service", "system", "csi", "exec", "run", "stop", "running", "failed", "complete", "ready", "down",
			"eligible", "pending", "blocked",
			"single-node-writer", "multi-node-multi-writer", "file-system", "block-device", "read", "write", "granted",
			"monolith", "global",
			"fail", "=", "${node.unique.id}", "create", "delete", "expand", "attach", "detach", "controller", "node"},
	}
	node := secret("node-id")
	g.good = map[string]any{
		"Region":                             "global",
		"Namespace":                          "default",
		"SecretID":                           secret("secret-id"),
		"NodeID":                             node,
		"MinIndex":                           0,
		"Filter":                             "",
		"PerPage":                            0,
		"AllocClientUpdate.ID":               alloc.ID,
		"Node.ID":                            node,
		"Node.Name":                          "one",
		"Node.Datacenter":                    "dc1",
		"CSIClaim.VolumeID":                  "counter",
		"CSIClaim.AllocID":                   alloc.ID,
		"CSIClaimKey.VolumeID":               "counter",
		"CSIClaimKey.AllocID":                alloc.ID,
		"CSIVolumeUnpublishRequest.Operator": "",
		"CSIPluginInstance.PluginID":         "hostpath",
		"CSIPluginInstance.Kind":             "node",
		"CSIInfo.PluginID":                   "hostpath",
		"CSIVolume.ID":                       "counter",
		"CSIVolume.PluginID":                 "hostpath",
		"Job.ID":                             "counter",
		"JobID":                              "counter",
		"VolumeID":                           "counter",
		"AllocID":                            alloc.ID,
		"CSIVolumeCapability.AccessMode":     "single-node-writer",
		"CSIVolumeCapability.AttachmentMode": "file-system",
	}
	logger := hclog.NewNullLogger()
	pool := rpc.NewPool(rpc.Dial, logger, nil)
	defer pool.Close()
	server := pool.At(net.JoinHostPort("127.0.0.1", strconv.Itoa(a.rpc)))
	began := a.cmd.Process.Pid
	rejected := map[structs.Kind]int{}
	taken := map[string]int{}
	for _, e := range endpoints.New(core.Deps{Store: state.New(), Logger: logger}).List() {
		if e.Name == "Node.Deregister" {
			continue // it would delete the rows that other requests name
		}
		for range 40 {
			req := e.New()
			g.fill(reflect.ValueOf(req).Elem(), 5)
			ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
			var answer any
			err := server.Call(ctx, e.Name, req, &answer)
			cancel()
			if err != nil {
				rejected[structs.KindOf(err)]++
			} else {
				taken[e.Name]++
			}
			if err != nil && strings.Contains(err.Error(), "panicked") {
				t.Errorf("%s: %v\nrequest: %+v", e.Name, err, req)
				break
			}
		}
	}
	t.Logf("rejected: %v; taken: %v", rejected, taken)
	a.must("node", "status")
	if a.cmd.Process.Pid != began || a.cmd.ProcessState != nil {
		t.Error("the agent ended")
	}
	for _, fault := range stateViolations(t, a) {
		t.Errorf("the state is not sound: %s", fault)
	}
}

// stateViolations checks the whole state of a server, as a snapshot has it.
func stateViolations(t testing.TB, a *agent) []string {
	t.Helper()
	path := filepath.Join(a.dir, "check.snap")
	plain := filepath.Join(a.dir, "check.bin")
	a.must("operator", "snapshot", "save", path)
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := snaparchive.Read(in, out); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	store := state.New()
	if err := store.Load(out); err != nil {
		t.Fatal(fmt.Errorf("loading the snapshot: %w", err))
	}
	return state.Check(store.Read())
}
