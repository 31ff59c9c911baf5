package rights_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// guardNow makes a server that asks for tokens by the clock of the test, which runs on while the test waits.
func guardNow(t *testing.T, onlyLog bool) (s *endpointstest.Server, token func(rules string) string) {
	s = endpointstest.New(t)
	s.Clock = time.Now()
	s.Guard()
	mode := access.ModeEnforce
	if onlyLog {
		mode = access.ModeLog
	}
	s.Gate = rights.NewGate(rights.Config{
		Mode: mode, Now: time.Now, Logger: hclog.NewNullLogger(),
	})
	return s, s.Token
}

// rejectedAtOnce is the time of a read that did not begin to wait.
const rejectedAtOnce = -1

// await waits for a change of the deployments, which do not change, and returns the error and the time.
func await(s *endpointstest.Server, o structs.QueryOptions) (took time.Duration, err error) {
	read := func() (*structs.DeploymentListResponse, error) {
		return rpc.Call(s.CallContext(), s.RPC, structs.DeploymentList, &structs.QueryRequest{QueryOptions: o})
	}
	now, err := read()
	if err != nil {
		return rejectedAtOnce, err
	}
	begun := time.Now()
	o.MinIndex = now.Index
	o.MaxWait = structs.MaxWait
	_, err = read()
	return time.Since(begun), err
}

// A read that waits ends when its token ends by time, also where no leader deletes the row of the token.
func TestReads_EndAtTheEndOfTheToken(t *testing.T) {
	const readsJobs = `namespace "default" { policy = "read" }`
	for name, secret := range map[string]func(s *endpointstest.Server) string{
		"a token": func(s *endpointstest.Server) string {
			endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{
				Policy: &access.Policy{Name: "p", Rules: readsJobs},
			})
			return endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{Token: &access.Token{
				Type:     access.TypeClient,
				Policies: []string{"p"},
				// An identity is taken for a minute after its end, for the clocks of others.
				ExpireTime: s.Clock.Add(time.Hour + time.Minute).UnixNano(),
			}}).SecretID
		},
		"an identity": func(s *endpointstest.Server) string {
			s.AddSigningKeys()
			addWorkloadFor(s, time.Hour)
			endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
				Name: "p", Rules: readsJobs, JobACL: &access.JobACL{JobID: "job-a1"},
			}})
			return s.TaskIdentity()
		},
	} {
		for _, stale := range []bool{false, true} {
			for _, onlyLog := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s, _ := guardNow(t, onlyLog)
					o := structs.QueryOptions{AuthToken: secret(s), AllowStale: stale}
					time.Sleep(58 * time.Minute)
					took, err := await(s, o)
					ended := structs.IsKind(err, structs.KindDenied) && took == 3*time.Minute
					if goesOn := err == nil && took == structs.MaxWait; onlyLog && !goesOn || !onlyLog && !ended {
						t.Errorf("%s, stale %t, log alone %t: the read ended after %s with %v", name, stale, onlyLog, took, err)
					}
					s.RPC.Close()
				})
			}
		}
	}
}

// addWorkloadFor places the allocation a1, whose task has the default identity with a time to live.
func addWorkloadFor(s *endpointstest.Server, ttl time.Duration) {
	s.AddNode("n1", "z")
	s.AddAlloc("a1", "n1", func(g *structs.TaskGroup) {
		g.Tasks[0].Identity = &structs.WorkloadIdentity{
			Name: structs.DefaultIdentity, Audience: []string{structs.DefaultAudience}, TTL: ttl,
		}
	})
}

// A token without an end is as good as on its first day while its allocation runs.
func TestReads_LastWithAnIdentityWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := guardNow(t, false)
		s.AddSigningKeys()
		addWorkloadFor(s, 0)
		endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
			Name: "p", Rules: `namespace "default" { policy = "read" }`, JobACL: &access.JobACL{JobID: "job-a1"},
		}})
		o := structs.QueryOptions{AuthToken: s.TaskIdentity()}
		time.Sleep(1000 * time.Hour)
		took, err := await(s, o)
		if err != nil || took != structs.MaxWait {
			t.Errorf("the read ended after %s with %v", took, err)
		}
		s.LoseAlloc("a1")
		_, err = await(s, o)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("after the end of the allocation: got %v, want denied", err)
		}
		s.RPC.Close()
	})
}

// A server that hears from no leader gives no answer by rights that may have ended, but to root.
func TestReads_EndWithTheContactToALeader(t *testing.T) {
	const cut = 10 * time.Second // before the read
	for name, c := range map[string]struct {
		change  func(s *endpointstest.Server, o *structs.QueryOptions)
		onlyLog bool
		silence time.Duration // when the read begins
		took    time.Duration
	}{
		"it is cut off":  {silence: cut, took: rights.MaxSilence - cut},
		"it was cut off": {silence: rights.MaxSilence, took: rejectedAtOnce},
		"an anonymous caller": {silence: cut, took: rights.MaxSilence - cut,
			change: func(_ *endpointstest.Server, o *structs.QueryOptions) { o.AuthToken = access.Anonymous }},
		"a machine": {silence: time.Hour, took: structs.MaxWait,
			change: func(_ *endpointstest.Server, o *structs.QueryOptions) { o.AuthToken = "" }},
		"root": {silence: time.Hour, took: structs.MaxWait,
			change: func(s *endpointstest.Server, o *structs.QueryOptions) {
				s.OverSocket = true
				o.AuthToken = access.Anonymous
			}},
		"the leader is asked": {silence: time.Hour, took: structs.MaxWait,
			change: func(_ *endpointstest.Server, o *structs.QueryOptions) { o.AllowStale = false }},
		"denials are logged alone": {silence: time.Hour, took: structs.MaxWait, onlyLog: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, token := guardNow(t, c.onlyLog)
			const rules = `namespace "default" { policy = "read" }`
			o := structs.QueryOptions{AllowStale: true, AuthToken: token(rules)}
			endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
				Name: access.AnonymousPolicy, Rules: rules,
			}})
			if c.change != nil {
				c.change(s, &o)
			}

			begun := time.Now()
			s.Raft.Do(func() {
				s.Raft.Silence = func() time.Duration { return c.silence + time.Since(begun) }
			})
			took, err := await(s, o)
			ends := c.took < structs.MaxWait
			if took != c.took || structs.IsNotServed(err) != ends || !ends && err != nil {
				t.Errorf("%s: the read ended after %s with %v, want the end after %s", name, took, err, c.took)
			}
			s.RPC.Close()
		})
	}
}
