package consul

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/structs"
	"berth/test/consultest"
)

// counted counts the registrations that it passes on.
type counted struct {
	AgentAPI
	registrations atomic.Int32
}

// ServiceRegisterOpts implements AgentAPI.
func (c *counted) ServiceRegisterOpts(s *Service, o api.ServiceRegisterOpts) error {
	c.registrations.Add(1)
	return c.AgentAPI.ServiceRegisterOpts(s, o)
}

func linkTo(t *testing.T, a *consultest.Agent, edit func(*Config)) (*Link, *counted) {
	t.Helper()
	c := DefaultConfig()
	c.Address = a.Addr
	if edit != nil {
		edit(&c)
	}
	l, err := New(c, t.Name(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.transport.CloseIdleConnections)
	count := &counted{AgentAPI: l.agent}
	l.agent = count
	return l, count
}

func mustSync(t *testing.T, l *Link) {
	t.Helper()
	if err := l.sync(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

func servicesOf(t *testing.T, a *consultest.Agent) map[string]*api.AgentService {
	t.Helper()
	all, err := a.API.Agent().Services()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func catalogTags(t *testing.T, a *consultest.Agent, name string) []string {
	t.Helper()
	all, _, err := a.API.Catalog().Service(name, "", nil)
	if err != nil || len(all) != 1 {
		t.Fatalf("service %s in the catalog: %v, %v", name, all, err)
	}
	return all[0].ServiceTags
}

// editTags changes the tags of a service in the catalog, as a tool beside the agent does, and in the agent:
// the catalog's tags come there about once a minute.
func editTags(t *testing.T, a *consultest.Agent, name string, tags ...string) {
	t.Helper()
	all, _, err := a.API.Catalog().Service(name, "", nil)
	if err != nil || len(all) != 1 {
		t.Fatalf("service %s in the catalog: %v, %v", name, all, err)
	}
	now := all[0]
	edited := &api.CatalogRegistration{
		Node:           now.Node,
		Address:        now.Address,
		SkipNodeUpdate: true,
		Service: &api.AgentService{
			ID:                now.ServiceID,
			Service:           now.ServiceName,
			Port:              now.ServicePort,
			Address:           now.ServiceAddress,
			Meta:              now.ServiceMeta,
			EnableTagOverride: now.ServiceEnableTagOverride,
			Tags:              tags,
		},
	}
	if now.ServiceProxy != nil && now.ServiceProxy.DestinationServiceName != "" {
		edited.Service.Kind = api.ServiceKindConnectProxy
		edited.Service.Proxy = now.ServiceProxy
	}
	if _, err := a.API.Catalog().Register(edited, nil); err != nil {
		t.Fatal(err)
	}
}

func editAgentTags(t *testing.T, a *consultest.Agent, id string, tags ...string) {
	t.Helper()
	now := servicesOf(t, a)[id]
	err := a.API.Agent().ServiceRegister(&Service{
		Kind:              now.Kind,
		ID:                now.ID,
		Name:              now.Service,
		Tags:              tags,
		Meta:              now.Meta,
		Port:              now.Port,
		Address:           now.Address,
		EnableTagOverride: now.EnableTagOverride,
		Proxy:             now.Proxy,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until a condition holds, for things that Consul does in its own time.
// patience is more than the two minutes at most between two times that an agent reads the catalog. It takes
// virtual addresses from there; if it reads before it has the services, the next time counts.
const patience = 3 * time.Minute

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestConsul_KeepsForeignTagsAndThrowsThemAwayWithANewDefinition(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	l.Put("alloc", []*Service{
		withSidecar(overridable("free", "ours")),
		service("strict", "ours"),
		service("bare"),
	})
	mustSync(t, l)
	await(t, "the catalog has the services", func() bool {
		all, _, err := a.API.Catalog().Services(nil)
		return err == nil && len(all) == 5 // with consul and the sidecar
	})
	for range 10 {
		mustSync(t, l)
	}
	if n := count.registrations.Load(); n != 3 {
		t.Fatalf("%d registrations without a change, want 3", n)
	}
	sidecar := "free" + sidecarSuffix
	if !servicesOf(t, a)[taskPrefix+sidecar].EnableTagOverride {
		t.Error("the sidecar does not have the setting of its parent")
	}
	for _, name := range []string{"free", sidecar} {
		editTags(t, a, name, "theirs")
		for range 10 {
			mustSync(t, l)
		}
		if got := catalogTags(t, a, name); !slices.Equal(got, []string{"theirs"}) {
			t.Errorf("%s: tags in the catalog after ten syncs: %q", name, got)
		}
	}
	for _, id := range []string{taskPrefix + "free", taskPrefix + sidecar, taskPrefix + "strict"} {
		editAgentTags(t, a, id, "theirs")
	}
	for range 10 {
		mustSync(t, l)
	}
	for id, want := range map[string]string{
		taskPrefix + "free":   "theirs",
		taskPrefix + sidecar:  "theirs",
		taskPrefix + "strict": "ours",
	} {
		if got := servicesOf(t, a)[id].Tags; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: tags after ten syncs: %q, want %q", id, got, want)
		}
	}
	l.Put("alloc", []*Service{withSidecar(overridable("free", "new"))})
	mustSync(t, l)
	all := servicesOf(t, a)
	if len(all) != 2 || !slices.Equal(all[taskPrefix+"free"].Tags, []string{"new"}) ||
		!slices.Equal(all[taskPrefix+sidecar].Tags, []string{"new"}) {
		t.Errorf("services after a new definition: %v", all)
	}
	l.Put("alloc", nil)
	mustSync(t, l)
	if all := servicesOf(t, a); len(all) != 0 {
		t.Errorf("services at the end: %v", all)
	}
}

func TestConsul_RunsChecksAndTakesTheResultsOfScripts(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && (r.Header.Get("X-Who") != "berth" || r.URL.Path != "/health") {
			t.Errorf("request %s with %v", r.URL, r.Header)
		}
	}))
	defer web.Close()
	addr := strings.TrimPrefix(web.URL, "http://")
	every := structs.ServiceCheck{Interval: time.Second, Timeout: time.Second}
	check := func(name, typ string, edit func(*structs.ServiceCheck)) Check {
		c := every
		c.Name = name
		c.Type = typ
		edit(&c)
		return Check{&c, addr}
	}
	i := Instance{ServiceInstance: structs.ServiceInstance{
		ID:          idPrefix + "alloc-group-web-http",
		ServiceName: "web",
		Address:     "127.0.0.1",
		Port:        80,
	}, Checks: []Check{
		check("http", structs.CheckHTTP, func(c *structs.ServiceCheck) {
			c.Protocol = "http"
			c.Method = "GET"
			c.Path = "/health"
			c.Header = map[string][]string{"X-Who": {"berth"}}
			c.Timeout = time.Minute // on a busy machine, too, it passes each time
		}),
		check("tcp", structs.CheckTCP, func(c *structs.ServiceCheck) { c.Timeout = time.Minute }),
		check("script", structs.CheckScript, func(c *structs.ServiceCheck) { c.TaskName = "web" }),
		check("grpc", structs.CheckGRPC, func(c *structs.ServiceCheck) { c.GRPCService = "health" }),
	}}
	s, ids, err := i.Registration()
	if err != nil {
		t.Fatal(err)
	}
	l.Put("alloc", []*Service{s})
	mustSync(t, l)
	script := ids[2]
	if c, known := l.Check(script); known {
		t.Errorf("the state before the first read: %+v", c)
	}
	mustSync(t, l)
	if c, _ := l.Check(script); c.Status != structs.CheckPending {
		t.Errorf("a script without a result: %+v", c)
	}
	l.Beat(script, structs.CheckWarning, "so so")
	if err := l.sendBeats(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{structs.CheckPassing, structs.CheckPassing, structs.CheckWarning, structs.CheckFailing}
	await(t, "the checks have run", func() bool {
		mustSync(t, l)
		for n, id := range ids {
			if c, known := l.Check(id); !known || c.Status != want[n] {
				return false
			}
		}
		return true
	})
	// A registration for another reason keeps the states.
	editAgentTags(t, a, s.ID, "theirs")
	mustSync(t, l)
	mustSync(t, l)
	for n, id := range ids {
		if c, _ := l.Check(id); c.Status != want[n] {
			t.Errorf("check %d after a registration: %+v", n, c)
		}
	}
	if n := count.registrations.Load(); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
	i.Checks = i.Checks[1:2]
	s, _, err = i.Registration()
	if err != nil {
		t.Fatal(err)
	}
	l.Put("alloc", []*Service{s})
	mustSync(t, l)
	if checks, err := a.API.Agent().Checks(); err != nil || len(checks) != 1 {
		t.Errorf("checks after a new definition with one: %v, %v", checks, err)
	}
	l.Beat(s.Checks[0].CheckID, structs.CheckPassing, "")
	l.Put("alloc", nil)
	mustSync(t, l)
}

func TestConsul_KeepsWeightsAndTaggedAddresses(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	i := Instance{
		ServiceInstance: structs.ServiceInstance{
			ID:          idPrefix + "alloc-group-web-http",
			ServiceName: "web",
			Address:     "10.0.0.1",
			Port:        80,
		},
		TaggedAddresses: map[string]string{
			"wan":      "192.0.2.1",
			"lan_ipv6": "[2001:db8::1]:8080",
			"name":     "web.example:81",
		},
		Weights: &structs.ServiceWeights{Passing: 7, Warning: 2},
	}
	var registered Service
	mustPut := func() {
		t.Helper()
		s, _, err := i.Registration()
		if err != nil {
			t.Fatal(err)
		}
		l.Put("alloc", []*Service{s})
		for range 3 {
			mustSync(t, l)
		}
		registered = *ownService(s, l.node)
	}
	mustPut()
	if n := count.registrations.Load(); n != 1 {
		t.Errorf("%d registrations without a change, want 1", n)
	}
	id := TaskServiceID(i.ID)
	now := servicesOf(t, a)[id]
	if now.Weights != (api.AgentWeights{Passing: 7, Warning: 2}) ||
		now.TaggedAddresses["wan"] != (api.ServiceAddress{Address: "192.0.2.1", Port: 80}) ||
		now.TaggedAddresses["lan_ipv6"] != (api.ServiceAddress{Address: "2001:db8::1", Port: 8080}) ||
		now.TaggedAddresses["name"] != (api.ServiceAddress{Address: "web.example", Port: 81}) {
		t.Errorf("Consul has %+v", now)
	}
	for _, edit := range []func(*Service){
		func(s *Service) { s.Weights = nil },
		func(s *Service) { s.TaggedAddresses = nil },
		func(s *Service) { s.TaggedAddresses["more"] = api.ServiceAddress{Address: "192.0.2.2"} },
	} {
		edited := registered
		edited.TaggedAddresses = maps.Clone(registered.TaggedAddresses)
		edit(&edited)
		if err := a.API.Agent().ServiceRegister(&edited); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			mustSync(t, l)
		}
		now := servicesOf(t, a)[id]
		if !sameService(&registered, now) || now.Weights.Passing != 7 || now.TaggedAddresses["wan"].Port != 80 {
			t.Errorf("Consul has %+v after the change of another program", now)
		}
	}
	i.Weights = nil
	i.TaggedAddresses = nil
	mustPut()
	if now := servicesOf(t, a)[id]; now.Weights.Passing != 1 || now.TaggedAddresses["wan"].Port != 0 {
		t.Errorf("Consul has %+v after a definition without both", now)
	}
	if n := count.registrations.Load(); n != 5 {
		t.Errorf("%d registrations, want 5", n)
	}
}

func TestConsul_AnswersWithTheExpectedRejections(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, _ := linkTo(t, a, nil)
	query := &api.QueryOptions{}
	for what, err := range map[string]error{
		"a service": l.agent.ServiceDeregisterOpts("none", query),
		"a check":   l.agent.CheckDeregisterOpts("none", query),
		"a result":  l.agent.UpdateTTLOpts("none", "", api.HealthPassing, query),
	} {
		if statusOf(err) != http.StatusNotFound {
			t.Errorf("%s that is not there: %v", what, err)
		}
	}
}

func TestConsul_NeedsATokenWhereACLsAreOn(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	denied, _ := linkTo(t, a, nil)
	denied.Put("alloc", []*Service{service("web")})
	if err := denied.sync(t.Context(), true); structs.KindOf(err) != structs.KindDenied {
		t.Errorf("without a token: %v", err)
	}
	token := a.Token(`service_prefix "web" { policy = "write" } node_prefix "" { policy = "read" }
		agent_prefix "" { policy = "read" }`)
	l, _ := linkTo(t, a, func(c *Config) { c.Token = Secret(token) })
	l.Put("alloc", []*Service{service("web"), service("db")})
	err := l.sync(t.Context(), true)
	if structs.KindOf(err) != structs.KindDenied || !strings.Contains(err.Error(), taskPrefix+"db") {
		t.Errorf("a service that the token may not write: %v", err)
	}
	if all := servicesOf(t, a); len(all) != 1 || all[taskPrefix+"web"] == nil {
		t.Errorf("services: %v", all)
	}
	self, err := l.fingerprint.self(t.Context())
	attributes := factAttributes(self, false)
	if err != nil || attributes["consul.version"] != "1.15.4" || attributes[factACLs] != "true" {
		t.Errorf("fingerprint: %v, %v", attributes, err)
	}
}

func TestConsul_HasTheServicesAgainAfterARestart(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, _ := linkTo(t, a, nil)
	l.Put("alloc", []*Service{service("web")})
	mustSync(t, l)
	a.Kill()
	if err := l.sync(t.Context(), true); !unanswered(err) {
		t.Errorf("a Consul that is away: %v", err)
	}
	l.Put("alloc", []*Service{service("other")})
	a.Run() // it has lost everything
	mustSync(t, l)
	if all := servicesOf(t, a); len(all) != 1 || all[taskPrefix+"other"] == nil {
		t.Errorf("services after the restart: %v", all)
	}
}

func TestLink_WorksAndEndsBesideARealConsul(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, _ := linkTo(t, a, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	l.WaitFirst(ctx)
	<-l.Changes()
	attributes := l.Attributes()
	for name, want := range map[string]string{
		"consul.version":     "1.15.4",
		"consul.server":      "true",
		"consul.datacenter":  "dc1",
		"consul.connect":     "true",
		"consul.acl":         "false",
		"consul.sku":         "oss",
		"unique.consul.name": "consul-test",
	} {
		if attributes[name] != want {
			t.Errorf("%s is %q, want %q", name, attributes[name], want)
		}
	}
	if _, has := attributes["consul.segment"]; has || attributes["consul.grpc"] == "" { // it has no segment
		t.Errorf("attributes: %v", attributes)
	}
	release := l.Follow()
	defer release()
	web, script := withScript(service("web"))
	web.Checks[0].TTL = "1h"
	l.Put("alloc", []*Service{web})
	l.PutUntilEnd("agent", []*Service{{ID: idPrefix + "agent", Name: "berth-client"}})
	l.Beat(script, structs.CheckPassing, "fine")
	await(t, "the check passes", func() bool {
		c, _ := l.Check(script)
		return c.Status == structs.CheckPassing && c.Output == "fine"
	})
	cancel()
	<-done
	if all := servicesOf(t, a); len(all) != 1 || all[web.ID] == nil {
		t.Errorf("services after the end: %v", all)
	}
}

// TestLink_EndsWhileConsulHangs holds the bounds of a Consul that accepts connections and never answers.
func TestLink_EndsWhileConsulHangs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c := DefaultConfig()
	c.Address = ln.Addr().String()
	c.Timeout = minTimeout
	l, err := New(c, t.Name(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	l.PutUntilEnd("agent", []*Service{service("web")})
	l.WaitFirst(ctx)
	if got := l.Attributes(); len(got) != 0 {
		t.Errorf("attributes without an answer: %v", got)
	}
	cancel()
	<-done
}
