package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAgent is a Consul agent in memory that can fail.
type fakeAgent struct {
	mu       sync.Mutex
	services map[string]*api.AgentService
	checks   map[string]*api.AgentCheck
	fault    error // of every call
	hangs    bool  // a sync gets no answer before the end of its context
	rejected map[string]error
	calls    map[string]int // by method
	beats    []string
}

func newFakeAgent() *fakeAgent {
	return &fakeAgent{
		services: map[string]*api.AgentService{},
		checks:   map[string]*api.AgentCheck{},
		rejected: map[string]error{},
		calls:    map[string]int{},
	}
}

var errAway = errors.New("connection refused")

func rejection(code int) error { return api.StatusError{Code: code, Body: "no"} }

func (f *fakeAgent) enter(method, id string) error {
	f.calls[method]++
	return cmp.Or(f.fault, f.rejected[id])
}

func (f *fakeAgent) ServicesWithFilterOpts(
	_ string, q *api.QueryOptions,
) (map[string]*api.AgentService, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	out := map[string]*api.AgentService{}
	for id, s := range f.services {
		if strings.HasPrefix(id, idPrefix) {
			copied := *s
			out[id] = &copied
		}
	}
	return out, f.enter("services", "")
}

func (f *fakeAgent) ChecksWithFilterOpts(
	string, *api.QueryOptions,
) (map[string]*api.AgentCheck, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]*api.AgentCheck{}
	for id, c := range f.checks {
		if strings.HasPrefix(id, idPrefix) {
			copied := *c
			out[id] = &copied
		}
	}
	return out, f.enter("checks", "")
}

func (f *fakeAgent) ServiceRegisterOpts(s *api.AgentServiceRegistration, _ api.ServiceRegisterOpts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("register", s.ID); err != nil {
		return err
	}
	f.set(s.ID, s)
	if side := sidecarOf(s); side != nil {
		beside := *side
		beside.Kind = api.ServiceKindConnectProxy
		beside.Name = s.Name + sidecarSuffix
		beside.Port = cmp.Or(side.Port, 21000)
		f.set(s.ID+sidecarSuffix, &beside)
		f.addChecks(s.ID+sidecarSuffix, side.Checks)
	}
	f.addChecks(s.ID, s.Checks)
	return nil
}

func (f *fakeAgent) addChecks(serviceID string, checks api.AgentServiceChecks) {
	for _, c := range checks {
		if f.checks[c.CheckID] == nil {
			f.checks[c.CheckID] = &api.AgentCheck{CheckID: c.CheckID, ServiceID: serviceID, Status: c.Status}
		}
	}
}

func (f *fakeAgent) set(id string, s *api.AgentServiceRegistration) {
	f.services[id] = &api.AgentService{
		Kind:              s.Kind,
		ID:                id,
		Service:           s.Name,
		Tags:              append([]string{}, s.Tags...), // Consul answers with an empty list
		Meta:              maps.Clone(s.Meta),
		Port:              s.Port,
		Address:           s.Address,
		EnableTagOverride: s.EnableTagOverride,
		Weights:           weightsOf(s.Weights),
		TaggedAddresses:   addressesOf(s),
		Proxy:             answerOf(s.Proxy),
		Connect:           s.Connect,
	}
}

// answerOf returns the settings of a proxy as an answer in JSON has them.
func answerOf(p *api.AgentServiceConnectProxyConfig) *api.AgentServiceConnectProxyConfig {
	if p == nil {
		return nil
	}
	text, _ := json.Marshal(p)
	var out api.AgentServiceConnectProxyConfig
	_ = json.Unmarshal(text, &out)
	return &out
}

// addressesOf returns the tagged addresses that Consul keeps of a service.
func addressesOf(s *api.AgentServiceRegistration) map[string]api.ServiceAddress {
	all := maps.Clone(s.TaggedAddresses)
	if s.Address == "" {
		return all
	}
	if all == nil {
		all = map[string]api.ServiceAddress{}
	}
	for _, tag := range []string{"lan_ipv4", "wan_ipv4"} {
		if _, given := all[tag]; !given {
			all[tag] = api.ServiceAddress{Address: s.Address, Port: s.Port}
		}
	}
	return all
}

func (f *fakeAgent) ServiceDeregisterOpts(id string, _ *api.QueryOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("deregister", id); err != nil {
		return err
	}
	if f.services[id] == nil {
		return rejection(http.StatusNotFound)
	}
	delete(f.services, id)
	delete(f.services, id+sidecarSuffix)
	maps.DeleteFunc(f.checks, func(_ string, c *api.AgentCheck) bool {
		return c.ServiceID == id || c.ServiceID == id+sidecarSuffix
	})
	return nil
}

func (f *fakeAgent) CheckDeregisterOpts(id string, _ *api.QueryOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("deregister check", id); err != nil {
		return err
	}
	delete(f.checks, id)
	return nil
}

func (f *fakeAgent) UpdateTTLOpts(id, output, status string, _ *api.QueryOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("beat", id); err != nil {
		return err
	}
	if f.checks[id] == nil {
		return rejection(http.StatusNotFound)
	}
	f.checks[id].Status = status
	f.checks[id].Output = output
	f.beats = append(f.beats, status+" "+output)
	return nil
}

// change edits the agent as somebody else would.
func (f *fakeAgent) change(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

func (f *fakeAgent) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fakeAgent) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.services))
}

func (f *fakeAgent) tags(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.services[id] == nil {
		return []string{"there is no service"}
	}
	return f.services[id].Tags
}

// bubble runs a test of a syncer in virtual time. The syncer ends with the test.
func bubble(t *testing.T, test func(t *testing.T, f *fakeAgent, s *Syncer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAgent()
		s, end := startSyncer(f)
		defer end()
		test(t, f, s)
	})
}

// startSyncer runs a syncer of the agent "a" until end.
func startSyncer(f AgentAPI) (s *Syncer, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s = newSyncer(f, "a", hclog.NewNullLogger())
	var loops sync.WaitGroup
	loops.Go(func() { s.run(ctx) })
	loops.Go(func() { s.runBeats(ctx) })
	loops.Go(func() { s.runStatus(ctx) })
	return s, func() {
		cancel()
		loops.Wait()
	}
}

func service(name string, tags ...string) *Service {
	return &Service{
		ID:   taskPrefix + name,
		Name: name,
		Tags: tags,
		Port: 80,
	}
}

func overridable(name string, tags ...string) *Service {
	s := service(name, tags...)
	s.EnableTagOverride = true
	return s
}

func withScript(s *Service) (*Service, string) {
	c := Check{ServiceCheck: &structs.ServiceCheck{
		Name: "script",
		Type: structs.CheckScript,
	}}
	r := c.registration()
	r.CheckID = checkID(s.ID, 0, r)
	s.Checks = append(s.Checks, r)
	return s, r.CheckID
}
