package server_test

import (
	"context"
	"fmt"
	stdrpc "net/rpc"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/bench/shape"
	"berth/fsm"
	"berth/internal/auditlog"
	"berth/server"
	"berth/structs"
	"berth/structs/access"
)

// guardedVolumes is the number of volumes and of allocations in BenchmarkRPCGuarded, and the number of
// operations of a server in one of its rounds.
const guardedVolumes = 1000

// side is a server in the comparison, with the times of its rounds.
type side struct {
	name  string
	w     *benchServer
	token string
	wall  []time.Duration
	cpu   []time.Duration
}

// BenchmarkRPCGuarded compares servers with access control and an audit log to one without them: claims by
// nodes, and changes of volumes by people, of 64 clients. The servers take turns in each round. A figure is
// the ratio of the fastest rounds, because other users of a machine only slow it down: the speed beside that
// of the server without either.
func BenchmarkRPCGuarded(b *testing.B) {
	sides := startSides(b)
	for _, op := range []struct {
		name string
		do   func(s *side, c *stdrpc.Client, i int) error
	}{
		{"claim", func(_ *side, c *stdrpc.Client, i int) error {
			return claim(c, shape.VolumeID(i%guardedVolumes), i%guardedVolumes, structs.ClaimWrite,
				i/guardedVolumes%2 == 1)
		}},
		{"register", func(s *side, c *stdrpc.Client, i int) error {
			v := shape.Volume(shape.VolumeID(i%guardedVolumes), i%guardedVolumes)
			v.Context["rev"] = fmt.Sprint(time.Now().UnixNano())
			req := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
			req.AuthToken = s.token
			return c.Call(structs.CSIVolumeRegister.Name, req, &indexOnly{})
		}},
	} {
		b.Run(op.name, func(b *testing.B) {
			for _, s := range sides {
				s.wall = nil
				s.cpu = nil
			}
			for round := 0; b.Loop(); round++ {
				for i := range sides {
					s := sides[(i+round)%len(sides)]
					s.measure(func() {
						s.w.loadN(b, 64, 2*guardedVolumes, func(c *stdrpc.Client, i int) error { return op.do(s, c, i) })
					})
				}
			}
			report(b, sides)
		})
	}
}

// measure notes the wall time and the CPU time of a round.
func (s *side) measure(round func()) {
	start := time.Now()
	before := cpuTime()
	round()
	s.wall = append(s.wall, time.Since(start))
	s.cpu = append(s.cpu, cpuTime()-before)
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it cannot fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// report reports the times of the first side for an operation, and the ratios of the others.
func report(b *testing.B, sides []*side) {
	b.ReportMetric(0, "ns/op")
	first := sides[0]
	b.ReportMetric(micros(slices.Min(first.wall)), first.name+"-µs")
	b.ReportMetric(micros(slices.Min(first.cpu)), first.name+"-cpu-µs")
	for _, s := range sides[1:] {
		b.ReportMetric(ratio(slices.Min(first.wall), slices.Min(s.wall)), s.name+"-speed")
		b.ReportMetric(ratio(slices.Min(first.cpu), slices.Min(s.cpu)), s.name+"-cpu-speed")
	}
}

// micros returns the time of one operation of a round in microseconds.
func micros(round time.Duration) float64 {
	return float64(round.Nanoseconds()) / 1000 / (2 * guardedVolumes)
}

func ratio(of, by time.Duration) float64 { return float64(of) / float64(by) }

// startSides starts the servers, with the tokens of their callers.
func startSides(b *testing.B) []*side {
	guarded := func(c *server.Config) { c.ACL.Enabled = true }
	audited := func(c *server.Config) { c.Audit = openAudit(b) }
	var sides []*side
	for _, s := range []struct {
		name             string
		tokens, policies int
		edits            []func(*server.Config)
	}{
		{"off", 0, 0, nil},
		{"acl", 1, 3, []func(*server.Config){guarded}},
		{"acl-10k", 10_000, 1000, []func(*server.Config){guarded}},
		{"audit", 0, 0, []func(*server.Config){audited}},
		{"acl-10k-audit", 10_000, 1000, []func(*server.Config){guarded, audited}},
	} {
		is := &side{
			name: s.name,
			w:    startBench(b, 1000, guardedVolumes, guardedVolumes, s.edits...),
		}
		is.w.addTokens(s.tokens, s.policies)
		if s.tokens > 0 {
			is.token = tokenSecret(0)
		}
		sides = append(sides, is)
	}
	return sides
}

func tokenSecret(i int) string { return shape.UUID("token", i) }

// addTokens stores policies, and tokens of three of them. The first policies let their tokens change volumes.
func (w *benchServer) addTokens(tokens, policies int) {
	ctx := context.Background()
	w.parallelN(policies, 512, func(i int) error {
		rules := fmt.Sprintf("namespace \"team-%d\" {\n  policy = \"read\"\n}\n", i)
		if i < 3 {
			rules = "namespace \"default\" {\n  policy       = \"write\"\n" +
				"  capabilities = [\"csi-force-volume\"]\n}\n"
		}
		p := &access.Policy{Name: fmt.Sprintf("p%d", i), Rules: rules}
		_, err := fsm.Propose(ctx, w, fsm.ACLPolicyPut, &access.PolicyPutRequest{Policy: p})
		return err
	})
	w.parallelN(tokens, 512, func(i int) error {
		t := &access.Token{
			AccessorID: shape.UUID("accessor", i),
			SecretHash: access.HashSecret(tokenSecret(i)),
			Type:       access.TypeClient,
		}
		for j := range 3 {
			t.Policies = append(t.Policies, fmt.Sprintf("p%d", (i+j)%policies))
		}
		_, err := fsm.Propose(ctx, w, fsm.ACLTokenPut, &access.TokenChange{Token: t, Now: 1})
		return err
	})
}

// openAudit opens an audit log with the default sink: an enforced file.
func openAudit(b *testing.B) *auditlog.Log {
	c := auditlog.Config{Enabled: true}
	c.Finish(b.TempDir())
	l, err := auditlog.Open(c, auditlog.Deps{Agent: "bench", Logger: hclog.NewNullLogger(), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	return l
}
