package api_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/areas"
	"berth/bench/shape"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/agentproof"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// soleServer is a cluster of one server that only reads.
type soleServer struct{ core.Raft }

func (soleServer) Leader() (string, bool, bool, time.Duration) {
	return "127.0.0.1:1", true, true, 0
}

func (soleServer) VerifyLeader() error { return nil }
func (soleServer) Alone() bool         { return true }
func (soleServer) Servers() []string   { return nil }

type noLeases struct{ core.Leases }

func (noLeases) Admit(agentproof.Node, *structs.AgentProof) error { return nil }

func (noLeases) Forget(string) {}

func (noLeases) Renew(string, *structs.AgentProof) (structs.LeaseGrant, error) {
	return structs.LeaseGrant{HeartbeatTTL: time.Hour}, nil
}

// benchSize is the number of rows in a list.
const benchSize = 10000

// benchHandler serves a state with benchSize volumes and a number of nodes. Each node has one allocation with
// a claim of one shared volume.
func benchHandler(t testing.TB, nodes int) (http.Handler, *state.Store) {
	store := state.New()
	index := uint64(0)
	batch := store.Begin()
	apply := func(fn func(*state.WriteTx) error) {
		index++
		if err := batch.Apply(index, fn); err != nil {
			t.Fatal(err)
		}
	}
	volumes := &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{shape.Volume(shape.SharedVolume, benchSize)},
	}
	plan := &structs.Plan{
		Eval: &structs.Evaluation{
			ID:     "eval",
			JobID:  shape.JobID,
			Status: structs.EvalComplete,
		},
	}
	for i := range nodes {
		apply(func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, shape.Register(i, 0, shape.Plugin))
		})
		plan.Place = append(plan.Place, shape.Alloc(i, nodes))
	}
	for i := range benchSize {
		v := shape.Volume(shape.VolumeID(i), i)
		volumes.Volumes = append(volumes.Volumes, v)
	}
	apply(func(tx *state.WriteTx) error {
		return csi.VolumePut(tx, volumes)
	})
	apply(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: shape.Job(nodes)})
	})
	plan.JobModifyIndex = index
	apply(func(tx *state.WriteTx) error {
		return state.PlanApply(tx, plan)
	})
	for i := range nodes {
		apply(func(tx *state.WriteTx) error {
			c := shape.Claim(shape.SharedVolume, i, structs.ClaimRead)
			return csi.VolumeClaim(tx, agenttest.Request(&structs.CSIVolumeClaimRequest{
				NodeID: shape.UUID("node", i),
				Claims: []*structs.CSIClaim{c},
			}))
		})
	}
	batch.Commit()
	e := endpoints.New(core.Deps{
		Store:  store,
		Raft:   soleServer{},
		Leases: noLeases{},
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	})
	s := rpc.NewServer(hclog.NewNullLogger(), e.List()...)
	t.Cleanup(s.Close)
	return api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       s,
		Agent:        newAgent(),
		Logger:       hclog.NewNullLogger(),
		AllowedHosts: []string{"example.com"},
	}), store
}

// discardWriter counts the bytes of an answer and drops them.
type discardWriter struct {
	header http.Header
	status int
	size   int
}

func (w *discardWriter) Header() http.Header {
	return w.header
}

func (w *discardWriter) WriteHeader(status int) {
	w.status = status
}

func (w *discardWriter) Write(b []byte) (int, error) {
	w.size += len(b)
	return len(b), nil
}

func (w *discardWriter) Flush() {}

// BenchmarkHTTPList renders lists of 10,000 rows without a socket.
func BenchmarkHTTPList(b *testing.B) {
	h, _ := benchHandler(b, benchSize)
	for name, path := range map[string]string{
		"volumes":     "/v1/volumes?type=csi",
		"nodes":       "/v1/nodes",
		"allocations": "/v1/allocations",
		"claims":      "/v1/volume/csi/" + shape.SharedVolume + "/claims",
		"filtered":    "/v1/volumes?type=csi&filter=ID+contains+%22vol%22",
		"page":        "/v1/volumes?type=csi&per_page=100",
		"reversed":    "/v1/volumes?type=csi&reverse",
	} {
		b.Run(name, func(b *testing.B) {
			benchGet(b, h, path)
		})
	}
}

// BenchmarkHTTPGet reads one row.
func BenchmarkHTTPGet(b *testing.B) {
	h, _ := benchHandler(b, benchSize)
	for name, path := range map[string]string{
		"volume":     "/v1/volume/csi/" + shape.VolumeID(7),
		"node":       "/v1/node/" + shape.UUID("node", 7),
		"allocation": "/v1/allocation/" + shape.UUID("alloc", 7),
		"plugins":    "/v1/plugins",
	} {
		b.Run(name, func(b *testing.B) {
			benchGet(b, h, path)
		})
	}
}

func benchGet(b *testing.B, h http.Handler, path string) {
	req := httptest.NewRequest("GET", path, nil)
	b.ReportAllocs()
	defer perOp(b)()
	for b.Loop() {
		w := &discardWriter{header: http.Header{}}
		h.ServeHTTP(w, req.Clone(req.Context()))
		if w.status != http.StatusOK || w.size < 100 {
			b.Fatalf("answered %d with %d bytes", w.status, w.size)
		}
		b.SetBytes(int64(w.size))
	}
}

// BenchmarkHTTPListSocket lists 10,000 volumes over a socket.
func BenchmarkHTTPListSocket(b *testing.B) {
	h, _ := benchHandler(b, benchSize)
	s := httptest.NewServer(h)
	defer s.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 1<<20)
	b.ReportAllocs()
	defer perOp(b)()
	for b.Loop() {
		_, err := fmt.Fprint(conn, "GET /v1/volumes?type=csi HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err != nil {
			b.Fatal(err)
		}
		for last := ""; !strings.HasSuffix(last, "\r\n0\r\n\r\n"); {
			n, err := conn.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			last += string(buf[max(0, n-7):n])
			last = last[max(0, len(last)-7):]
		}
	}
}

// perOp reports the CPU time of an operation, that of client and server together.
func perOp(b *testing.B) func() {
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	return func() {
		spent := float64((cpu() - before).Nanoseconds())
		b.ReportMetric(spent/float64(b.N), "cpu-ns/op")
	}
}
