package consul

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

// pass lets a time pass, with all that the syncer does in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func checkIDs(t *testing.T, f *fakeAgent, want ...string) {
	t.Helper()
	if got := f.ids(); !slices.Equal(got, want) {
		t.Errorf("Consul has %q, want %q", got, want)
	}
}

func TestSyncer_RegistersOnceWithoutAChange(t *testing.T) {
	for name, tags := range map[string][]string{"nil": nil, "empty": {}, "some": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
				web, _ := withScript(service("web"))
				web.Tags = tags
				s.Put("alloc", []*Service{web})
				pass(time.Hour)
				if n := f.count("register"); n != 1 {
					t.Errorf("%d registrations in an hour, want 1", n)
				}
				if n := f.count("services"); n < 120 {
					t.Errorf("%d syncs in an hour, want one each 30 s", n)
				}
				same, _ := withScript(service("web"))
				same.Tags = tags
				s.Put("alloc", []*Service{same})
				pass(time.Minute)
				if n := f.count("register"); n != 1 {
					t.Errorf("%d registrations after the same definition, want 1", n)
				}
			})
		})
	}
}

func TestSyncer_RestoresTagsOnlyWithoutTagOverride(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		s.Put("alloc", []*Service{overridable("free", "ours"), service("strict", "ours")})
		pass(time.Second)
		for _, id := range f.ids() {
			f.change(func() { f.services[id].Tags = []string{"theirs"} })
		}
		pass(10 * syncInterval)
		if got := f.tags(taskPrefix + "free"); !slices.Equal(got, []string{"theirs"}) {
			t.Errorf("tags with enable_tag_override: %q", got)
		}
		if got := f.tags(taskPrefix + "strict"); !slices.Equal(got, []string{"ours"}) {
			t.Errorf("tags without enable_tag_override: %q", got)
		}
		// Another difference does not restore them either.
		f.change(func() { f.services[taskPrefix+"free"].Port = 1 })
		pass(syncInterval)
		if f.services[taskPrefix+"free"].Port != 80 || !slices.Equal(f.tags(taskPrefix+"free"), []string{"theirs"}) {
			t.Errorf("after a change of the port: %+v", f.services[taskPrefix+"free"])
		}
		f.change(func() { f.services[taskPrefix+"free"].Tags = nil })
		pass(10 * syncInterval)
		if got := f.tags(taskPrefix + "free"); len(got) != 0 {
			t.Errorf("tags that others have removed: %q", got)
		}
		// Another owner's change is none of this service.
		s.Put("other", []*Service{service("other")})
		pass(time.Second)
		if got := f.tags(taskPrefix + "free"); len(got) != 0 {
			t.Errorf("tags after a change of another service: %q", got)
		}
	})
}

func TestSyncer_ReplacesForeignTagsWithANewDefinition(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		s.Put("alloc", []*Service{overridable("web", "one")})
		pass(time.Second)
		f.change(func() { f.services[taskPrefix+"web"].Tags = []string{"theirs"} })
		s.Put("alloc", []*Service{overridable("web", "two")})
		pass(time.Second)
		if got := f.tags(taskPrefix + "web"); !slices.Equal(got, []string{"two"}) {
			t.Errorf("tags after a new definition: %q", got)
		}
		f.change(func() { f.services[taskPrefix+"web"].Tags = []string{"theirs"} })
		changed := overridable("web", "two")
		changed.Port = 81
		s.Put("alloc", []*Service{changed})
		pass(time.Second)
		if got := f.tags(taskPrefix + "web"); !slices.Equal(got, []string{"two"}) {
			t.Errorf("tags after a new definition with the same tags: %q", got)
		}
	})
}

func TestSyncer_KeepsForeignTagsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAgent()
		s, end := startSyncer(f)
		s.Put("alloc", []*Service{overridable("web", "ours"), overridable("changed", "ours")})
		pass(time.Second)
		end()
		for _, id := range f.ids() {
			f.change(func() { f.services[id].Tags = []string{"theirs"} })
		}
		s, end = startSyncer(f)
		defer end()
		s.Put("alloc", []*Service{overridable("web", "ours"), overridable("changed", "new")})
		pass(time.Second)
		if got := f.tags(taskPrefix + "web"); !slices.Equal(got, []string{"theirs"}) {
			t.Errorf("tags of the same definition: %q", got)
		}
		if got := f.tags(taskPrefix + "changed"); !slices.Equal(got, []string{"new"}) {
			t.Errorf("tags of a definition that changed meanwhile: %q", got)
		}
	})
}

func withSidecar(s *Service) *Service {
	s.Connect = &api.AgentServiceConnect{SidecarService: &Service{}}
	return s
}

func TestSyncer_SidecarFollowsItsParent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		free := taskPrefix + "free" + sidecarSuffix
		strict := taskPrefix + "strict" + sidecarSuffix
		s.Put("alloc", []*Service{
			withSidecar(overridable("free", "ours")),
			withSidecar(service("strict", "ours")),
		})
		pass(10 * syncInterval)
		if n := f.count("register"); n != 2 {
			t.Fatalf("%d registrations without a change, want 2", n)
		}
		for _, id := range []string{free, strict} {
			f.change(func() { f.services[id].Tags = []string{"theirs"} })
		}
		pass(10 * syncInterval)
		if !slices.Equal(f.tags(free), []string{"theirs"}) || !slices.Equal(f.tags(strict), []string{"ours"}) {
			t.Errorf("tags of sidecars: %q with and %q without enable_tag_override of the parent",
				f.tags(free), f.tags(strict))
		}
		f.change(func() { delete(f.services, free) })
		pass(syncInterval)
		if f.services[free] == nil {
			t.Error("a lost sidecar is not registered again")
		}
		s.Put("alloc", []*Service{withSidecar(overridable("free", "new")), service("strict", "ours")})
		pass(time.Second)
		if !slices.Equal(f.tags(free), []string{"new"}) {
			t.Errorf("tags of the sidecar after a new definition: %q", f.tags(free))
		}
		checkIDs(t, f, taskPrefix+"free", free, taskPrefix+"strict")
	})
}

func TestSyncer_LeavesServicesOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		theirs := ownService(service("theirs"), "b") // of another agent with the same Consul
		f.change(func() {
			f.set("db", &Service{Name: "db"})
			f.set(theirs.ID, theirs)
			f.set(idPrefix+"unmarked", &Service{Name: "unmarked"})
		})
		s.Put("alloc", []*Service{service("web")})
		pass(time.Hour)
		s.Put("alloc", nil)
		pass(time.Hour)
		checkIDs(t, f, theirs.ID, idPrefix+"unmarked", "db")
	})
}

func TestSyncer_RemovesLeftoversAfterTheProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAgent()
		s, end := startSyncer(f)
		s.Put("alloc", []*Service{service("stays"), service("ended"), service("late")})
		pass(time.Second)
		end() // without a removal: the tasks run on
		checkIDs(t, f, taskPrefix+"ended", taskPrefix+"late", taskPrefix+"stays")
		s, end = startSyncer(f)
		defer end()
		s.Put("alloc1", []*Service{service("stays")})
		pass(probation - time.Second)
		checkIDs(t, f, taskPrefix+"ended", taskPrefix+"late", taskPrefix+"stays")
		s.Put("alloc2", []*Service{service("late")})
		pass(2 * syncInterval)
		checkIDs(t, f, taskPrefix+"late", taskPrefix+"stays")
		if n := f.count("register"); n != 3 {
			t.Errorf("%d registrations, want the 3 of the first agent", n)
		}
	})
}

func TestSyncer_RemembersRemovalsAcrossFailures(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		s.Put("alloc", []*Service{service("web"), service("db")})
		pass(time.Second)
		f.change(func() { f.fault = errAway })
		s.Put("alloc", []*Service{service("db")})
		pass(10 * time.Second) // within the probation
		f.change(func() { f.fault = nil })
		pass(syncInterval)
		checkIDs(t, f, taskPrefix+"db")
		f.change(func() { f.rejected[taskPrefix+"db"] = rejection(http.StatusInternalServerError) })
		s.Put("alloc", nil)
		pass(time.Second)
		checkIDs(t, f, taskPrefix+"db")
		f.change(func() { clear(f.rejected) })
		pass(syncInterval)
		checkIDs(t, f)
		if !s.idle() {
			t.Error("removals are remembered after their success")
		}
		if n := f.count("deregister"); n > 10 {
			t.Errorf("%d removals", n)
		}
	})
}

// Within the probation the agent removes nothing but what it remembers as removed.
func TestSyncer_RemembersARejectedRemovalWithinTheProbation(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		begin := time.Now()
		s.Put("alloc", []*Service{service("web"), service("db")})
		pass(time.Second)
		f.change(func() { f.rejected[taskPrefix+"web"] = rejection(http.StatusInternalServerError) })
		s.Put("alloc", []*Service{service("db")})
		pass(10 * time.Second)
		checkIDs(t, f, taskPrefix+"db", taskPrefix+"web")
		f.change(func() { clear(f.rejected) })
		pass(longestRetry)
		if took := time.Since(begin); took > probation-5*time.Second {
			t.Fatalf("%s have passed, so the end of the probation may have removed the service", took)
		}
		checkIDs(t, f, taskPrefix+"db")
	})
}

func TestSyncer_RetriesWithBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		f.change(func() { f.fault = rejection(http.StatusInternalServerError) })
		s.Put("alloc", []*Service{service("web")})
		pass(time.Hour)
		if n := f.count("services"); n < 100 || n > 130 {
			t.Errorf("%d attempts in an hour of failures, want about one each %s", n, longestRetry)
		}
		f.change(func() { f.fault = nil })
		pass(longestRetry)
		checkIDs(t, f, taskPrefix+"web")
		// The pauses are short again.
		f.change(func() { f.fault = errAway })
		s.Put("alloc", []*Service{service("web"), service("db")})
		pass(time.Second / 2)
		f.change(func() { f.fault = nil })
		pass(shortestRetry)
		checkIDs(t, f, taskPrefix+"db", taskPrefix+"web")
	})
}

func TestSyncer_RegistersTheOthersBesideARejectedService(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		f.change(func() { f.rejected[taskPrefix+"a"] = rejection(http.StatusForbidden) })
		s.Put("alloc", []*Service{service("a"), service("b"), service("c")})
		pass(time.Second)
		checkIDs(t, f, taskPrefix+"b", taskPrefix+"c")
	})
}

func TestSyncer_StopsAtTheFirstCallWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		f.change(func() { f.rejected[taskPrefix+"a"] = errAway })
		s.Put("alloc", []*Service{service("a"), service("b"), service("c")})
		pass(time.Millisecond)
		if n := f.count("register"); n != 1 {
			t.Errorf("%d calls to a Consul that does not answer, want 1", n)
		}
	})
}

func TestSyncer_RemovesTheAgentsOwnServicesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAgent()
		s, end := startSyncer(f)
		s.Put("alloc", []*Service{service("web")})
		s.PutUntilEnd("agent", []*Service{{ID: idPrefix + "client", Name: "berth-client"}})
		pass(time.Second)
		checkIDs(t, f, idPrefix+"client", taskPrefix+"web")
		s.Put("gone", []*Service{service("never")}) // a change right before the end
		end()
		checkIDs(t, f, taskPrefix+"never", taskPrefix+"web")
	})
}

func TestSyncer_EndsWhileConsulIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAgent()
		f.fault = errAway
		s, end := startSyncer(f)
		s.PutUntilEnd("agent", []*Service{service("web")})
		pass(time.Minute)
		f.change(func() { f.hangs = true })
		begin := time.Now()
		end()
		if took := time.Since(begin); took != lastSync {
			t.Errorf("the end took %s, want %s", took, lastSync)
		}
	})
}

func TestSyncer_ReplacesChecksThatChange(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web, first := withScript(service("web"))
		s.Put("alloc", []*Service{web})
		pass(time.Second)
		f.change(func() { f.checks["theirs"] = &api.AgentCheck{CheckID: "theirs", ServiceID: web.ID} })
		changed := service("web")
		changed.Checks = api.AgentServiceChecks{{CheckID: checkPrefix + "new", TCP: "127.0.0.1:80"}}
		s.Put("alloc", []*Service{changed})
		pass(time.Second)
		if f.checks[first] != nil || f.checks[checkPrefix+"new"] == nil || f.checks["theirs"] == nil {
			t.Errorf("checks after a change: %v", f.checks)
		}
		f.change(func() { delete(f.checks, checkPrefix+"new") })
		pass(syncInterval)
		if f.checks[checkPrefix+"new"] == nil {
			t.Error("a lost check is not registered again")
		}
	})
}

func TestSyncer_SendsTheNewestResultOfAScript(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web, id := withScript(service("web"))
		s.Beat(id, structs.CheckPassing, "nobody wants it")
		s.Put("alloc", []*Service{web})
		pass(time.Second)
		s.Beat(id, structs.CheckPassing, "one")
		pass(time.Second)
		f.change(func() { f.fault = errAway })
		s.Beat(id, structs.CheckWarning, "two")
		pass(time.Minute)
		s.Beat(id, structs.CheckFailing, "three")
		pass(time.Minute)
		f.change(func() { f.fault = nil })
		pass(time.Minute)
		if want := []string{"passing one", "critical three"}; !slices.Equal(f.beats, want) {
			t.Errorf("results in Consul: %q, want %q", f.beats, want)
		}
		// Consul has lost all: the check has its state at once.
		s.Beat(id, structs.CheckPassing, "four")
		pass(time.Second)
		f.change(func() { clear(f.services); clear(f.checks) })
		pass(syncInterval)
		if c := f.checks[id]; c == nil || c.Status != api.HealthPassing {
			t.Errorf("the check after a loss: %+v", c)
		}
	})
}

func TestSyncer_KeepsResultsOnlyOfChecksThatStay(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web, stays := withScript(service("web"))
		db, ends := withScript(service("db"))
		s.Put("alloc", []*Service{web, db})
		s.Beat(stays, structs.CheckPassing, "")
		pass(time.Second)
		changed, _ := withScript(service("web", "new"))
		f.change(func() { clear(f.services); clear(f.checks) })
		s.Put("alloc", []*Service{changed})
		pass(time.Second)
		if c := f.checks[stays]; c == nil || c.Status != api.HealthPassing {
			t.Errorf("the check after another definition of its service: %+v", c)
		}
		sent := f.count("beat")
		s.Beat(ends, structs.CheckPassing, "")
		pass(time.Minute)
		if n := f.count("beat"); n != sent {
			t.Errorf("%d results of a check that nobody wants any more", n-sent)
		}
	})
}

func TestSyncer_ResultForALostCheckRegistersItAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web, id := withScript(service("web"))
		s.Put("alloc", []*Service{web})
		pass(time.Second)
		f.change(func() { clear(f.services); clear(f.checks) })
		s.Beat(id, structs.CheckPassing, "here")
		pass(2 * shortestRetry)
		if c := f.checks[id]; c == nil || c.Status != api.HealthPassing || c.Output != "here" {
			t.Errorf("the check is %+v soon after the result", c)
		}
	})
}

func TestSyncer_ReadsStatesWhileSomebodyFollows(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web := service("web")
		web.Checks = api.AgentServiceChecks{{
			CheckID: checkPrefix + "x",
			TCP:     "127.0.0.1:80",
			Status:  api.HealthCritical,
		}}
		s.Put("alloc", []*Service{web})
		pass(time.Second)
		release := s.Follow()
		pass(pollInterval)
		before, known := s.Check(checkPrefix + "x")
		if !known || before.Status != structs.CheckPending {
			t.Errorf("a check that has not run: %+v %v", before, known)
		}
		f.change(func() {
			f.checks[checkPrefix+"x"].Status = api.HealthCritical
			f.checks[checkPrefix+"x"].Output = "rejected"
		})
		pass(pollInterval)
		after, _ := s.Check(checkPrefix + "x")
		if after.Status != structs.CheckFailing || after.Output != "rejected" || after.Read <= before.Read {
			t.Errorf("a check that fails: %+v", after)
		}
		f.change(func() { f.fault = errAway })
		pass(time.Minute)
		if away, _ := s.Check(checkPrefix + "x"); away != after {
			t.Errorf("while Consul is away: %+v, want the last state %+v", away, after)
		}
		release()
		f.change(func() { f.fault = nil })
		pass(time.Minute)
		n := f.count("checks")
		pass(20 * time.Second)
		if more := f.count("checks") - n; more > 2 {
			t.Errorf("%d reads of the states without a follower", more)
		}
	})
}

// nulls is a Consul whose answers have a null among the services and the checks.
type nulls struct{ *fakeAgent }

func (n nulls) ServicesWithFilterOpts(
	filter string, q *api.QueryOptions,
) (map[string]*api.AgentService, error) {
	all, err := n.fakeAgent.ServicesWithFilterOpts(filter, q)
	all[idPrefix+"null"] = nil
	return all, err
}

func (n nulls) ChecksWithFilterOpts(filter string, q *api.QueryOptions) (map[string]*api.AgentCheck, error) {
	all, err := n.fakeAgent.ChecksWithFilterOpts(filter, q)
	all[idPrefix+"null"] = nil
	return all, err
}

// A panic of the syncer would end the agent.
func TestSyncer_TakesNullsForNothing(t *testing.T) {
	f := newFakeAgent()
	s := newSyncer(nulls{f}, "node", hclog.NewNullLogger())
	s.Put("alloc", []*Service{service("web")})
	if err := s.sync(t.Context(), true); err != nil {
		t.Error(err)
	}
	if n := f.count("register"); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
}

// TestCheck_BeginsInConsulAsItsDefinitionSays has the states before the first result.
func TestCheck_BeginsInConsulAsItsDefinitionSays(t *testing.T) {
	for initial, want := range map[string]string{
		"":                   api.HealthCritical,
		structs.CheckPending: api.HealthCritical,
		structs.CheckWarning: api.HealthWarning,
		structs.CheckPassing: api.HealthPassing,
	} {
		for _, kind := range []string{structs.CheckTCP, structs.CheckScript} {
			c := Check{ServiceCheck: &structs.ServiceCheck{Type: kind, InitialStatus: initial}}
			if got := c.registration().Status; got != want {
				t.Errorf("%s, %q: got %s, want %s", kind, initial, got, want)
			}
		}
	}
}
