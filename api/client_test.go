package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/allocs"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/volumes"
	"berth/internal/keyring"
	"berth/structs"
)

// TestCalls_ReachARoute calls all methods with invented arguments. Each sends one request to a
// route, and the request has the texts of the arguments.
func TestCalls_ReachARoute(t *testing.T) {
	s := newServer(t)
	var asked []string
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked,
			fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.URL.Query(), " ", string(body)))
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		text := answer.Body.String()
		if answer.Code == http.StatusMethodNotAllowed || strings.Contains(text, "there is no route") {
			t.Errorf("%s %s: %d %s", r.Method, r.URL.Path, answer.Code, text)
		}
		http.Error(w, "seen", http.StatusConflict)
	})
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	eachCall(t.Context(), c, func(name string, texts int, err error) {
		if len(asked) != 1 || !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("%s sent %q and returned %v, want one request and a conflict", name, asked, err)
		}
		sent := strings.Count(strings.Join(asked, ""), "an/id")
		if sent < texts {
			t.Errorf("%s sent %q, want all %d texts of its arguments", name, asked, texts)
		}
		asked = nil
	})
}

// sampleArgument returns an argument of a call.
func sampleArgument(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch {
	case of.Kind() == reflect.String:
		v.SetString("an/id")
	case of == reflect.TypeFor[*structs.CSIVolume]():
		v.Set(reflect.ValueOf(fullVolume()))
	case of == reflect.TypeFor[*api.Exec]():
		v.Set(reflect.ValueOf(&api.Exec{Command: []string{"sh"}}))
	case of == reflect.TypeFor[io.Writer](), of == reflect.TypeFor[io.Reader]():
		v.Set(reflect.ValueOf(new(bytes.Buffer)))
	case of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct:
		v.Set(reflect.New(of.Elem()))
		nameIt(v.Elem())
	case of.Kind() == reflect.Struct:
		nameIt(v)
	}
	return v
}

// nameIt gives an object an ID and a name.
func nameIt(object reflect.Value) {
	for _, field := range []string{"ID", "Name", "SnapshotID"} {
		f := object.FieldByName(field)
		if f.IsValid() && f.Kind() == reflect.String {
			f.SetString("an/id")
		}
	}
}

// TestClient_MethodsReachTheirProcedures calls methods with arguments that their types do not suggest.
func TestClient_MethodsReachTheirProcedures(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{
		Address:   s.URL,
		Namespace: "n s",
		Region:    "r",
		Token:     "tok",
	})
	defer c.Close()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Job.List":           func() error { _, _, err := jobs.List(ctx, c, nil); return err },
		"Job.GetJob":         func() error { _, _, err := jobs.Get(ctx, c, "a/b c%", nil); return err },
		"Job.Why":            func() error { _, _, err := jobs.Why(ctx, c, "a/b", nil); return err },
		"Job.Summary":        func() error { _, _, err := jobs.Summary(ctx, c, "a/b", nil); return err },
		"Job.Allocations":    func() error { _, _, err := jobs.AllocationsOf(ctx, c, "a/b", true, nil); return err },
		"Job.Evaluations":    func() error { _, _, err := jobs.EvaluationsOf(ctx, c, "a/b", nil); return err },
		"Job.GetJobVersions": func() error { _, err := jobs.ListVersions(ctx, c, "a/b", jobs.Diffs{}); return err },
		"Job.Register": func() error {
			_, err := jobs.Register(ctx, c, fullJob(), jobs.RegisterOptions{})
			return err
		},
		"Job.Deregister": func() error {
			_, err := jobs.Deregister(ctx, c, "a/b", jobs.DeregisterOptions{Purge: true})
			return err
		},
		"Job.Validate":   func() error { _, err := jobs.Validate(ctx, c, fullJob()); return err },
		"Job.Dispatch":   func() error { _, err := jobs.Dispatch(ctx, c, "a/b", jobs.DispatchBody{}); return err },
		"Periodic.Force": func() error { _, err := jobs.ForcePeriodic(ctx, c, "a/b"); return err },
		"Job.Revert":     func() error { _, err := jobs.Revert(ctx, c, "a/b", 3, jobs.RevertOptions{}); return err },
		"Job.Scale": func() error {
			_, err := jobs.Scale(ctx, c, "a/b", "g", structs.ScalingEvent{Count: new(int64(3))})
			return err
		},
		"Job.ScaleStatus":        func() error { _, err := jobs.ScaleStatus(ctx, c, "a/b"); return err },
		"Job.Plan":               func() error { _, err := jobs.Plan(ctx, c, fullJob(), true); return err },
		"Job.Evaluate":           func() error { _, err := jobs.Evaluate(ctx, c, "a/b", true); return err },
		"Alloc.List":             func() error { _, _, err := allocs.List(ctx, c, nil); return err },
		"Alloc.GetAlloc":         func() error { _, _, err := allocs.Get(ctx, c, "x", nil); return err },
		"Alloc.Stop":             func() error { _, err := allocs.Stop(ctx, c, "x", allocs.StopOptions{}); return err },
		"Eval.List":              func() error { _, _, err := jobs.ListEvaluations(ctx, c, nil); return err },
		"Eval.GetEval":           func() error { _, _, err := jobs.GetEvaluation(ctx, c, "x", nil); return err },
		"Eval.Allocations":       func() error { _, _, err := jobs.ListEvaluationAllocations(ctx, c, "x", nil); return err },
		"Node.List":              func() error { _, _, err := nodes.List(ctx, c, nil); return err },
		"Node.Get":               func() error { _, _, err := nodes.Get(ctx, c, "n", nil); return err },
		"Node.GetAllocs":         func() error { _, _, err := nodes.ListAllocations(ctx, c, "n", nil); return err },
		"Node.UpdateEligibility": func() error { return nodes.SetEligibility(ctx, c, "n", true) },
		"Node.UpdateDrain":       func() error { return nodes.Drain(ctx, c, "n", nodes.DrainOrder{}) },
		"Node.DrainStatus":       func() error { _, _, err := nodes.DrainStatus(ctx, c, "n", nil); return err },
		"Node.Evaluate":          func() error { _, err := nodes.Evaluate(ctx, c, "n"); return err },
		"Node.Deregister":        func() error { return nodes.Purge(ctx, c, "n") },
		"CSIVolume.List": func() error {
			_, _, err := volumes.List(ctx, c, volumes.Filter{PluginID: "p"}, nil)
			return err
		},
		"CSIVolume.Get": func() error { _, _, err := volumes.Get(ctx, c, "/buckets/x", nil); return err },
		"CSIVolume.ListClaims": func() error {
			_, _, err := volumes.ClaimsOf(ctx, c, "/buckets/x", nil)
			return err
		},
		"CSIVolume.Register": func() error {
			_, err := volumes.Register(ctx, c, fullVolume())
			return err
		},
		"CSIVolume.Create": func() error {
			_, err := volumes.Create(ctx, c, fullVolume())
			return err
		},
		"CSIVolume.Deregister": func() error { return volumes.Deregister(ctx, c, "v", true) },
		"CSIVolume.Delete": func() error {
			return volumes.Delete(ctx, c, "v", volumes.Deletion{Secrets: structs.Secrets{"a": "x,y=z"}})
		},
		"CSIVolume.Detach": func() error {
			_, err := volumes.Detach(ctx, c, "v", volumes.DetachOptions{
				NodeID: "n",
				Reason: "r & s",
				By:     "me",
			})
			return err
		},
		"CSIVolume.ListExternal":     func() error { _, err := volumes.ListExternal(ctx, c, "p", nil); return err },
		"CSIPlugin.List":             func() error { _, _, err := volumes.ListPlugins(ctx, c, nil); return err },
		"CSIPlugin.Get":              func() error { _, _, err := volumes.GetPlugin(ctx, c, "p", nil); return err },
		"CSIPlugin.Delete":           func() error { return volumes.DeletePlugin(ctx, c, "p") },
		"Status.Leader":              func() error { _, err := operator.Leader(ctx, c); return err },
		"Status.Peers":               func() error { _, err := operator.Peers(ctx, c); return err },
		"Operator.RaftConfiguration": func() error { _, err := operator.RaftConfiguration(ctx, c, nil); return err },
		"Operator.RaftRemovePeer":    func() error { return operator.RemovePeer(ctx, c, "s1", "") },
		"Operator.RaftTransferLeadership": func() error {
			return operator.TransferLeadership(ctx, c, "s1", "")
		},
		"Eval.Count": func() error { _, _, err := jobs.CountEvaluations(ctx, c, nil); return err },
		"Eval.Delete": func() error {
			_, err := jobs.DeleteEvaluations(ctx, c, jobs.EvalDelete{EvalIDs: []string{"e1"}})
			return err
		},
		"System.GarbageCollect": func() error { return operator.GC(ctx, c) },
	} {
		err := call()
		calls := s.caller.Take()
		if len(calls) != 1 ||
			calls[0].Method != name ||
			!structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: called %v and returned %v, want unavailable", name, calls, err)
			continue
		}
		switch r := calls[0].Request.(type) {
		case *structs.JobGetRequest:
			if !strings.HasPrefix(r.JobID, "a/b") ||
				r.Namespace != "n s" ||
				r.Region != "r" ||
				r.AuthToken != "tok" {
				t.Errorf("%s sent %+v", name, r)
			}
		case *structs.JobRegisterRequest:
			want := fullJob()
			want.Namespace = "default"
			if !reflect.DeepEqual(r.Job, want) {
				t.Errorf("got the job\n%+v, want\n%+v", r.Job, want)
			}
		case *structs.CSIVolumeRegisterRequest:
			want := fullVolume()
			want.Namespace = "n s"
			if !reflect.DeepEqual(r.Volumes, []*structs.CSIVolume{want}) {
				t.Errorf("got the volume\n%+v, want\n%+v", r.Volumes[0], want)
			}
		case *structs.CSIVolumeDeleteRequest:
			if r.Secrets["a"] != "x,y=z" {
				t.Errorf("got the secrets %v", map[string]string(r.Secrets))
			}
		case *structs.CSIVolumeDetachRequest:
			if r.Reason != "r & s" || r.NodeID != "n" {
				t.Errorf("the detach sent %+v", r)
			}
		}
	}
}

func fullJob() *structs.Job {
	delay := 3 * time.Second
	return &structs.Job{
		ID:        "j",
		Namespace: "default",
		Type:      "service",
		Meta:      map[string]string{"a": "b"},
		TaskGroups: []*structs.TaskGroup{{
			Name:          "g",
			Count:         0,
			ShutdownDelay: &delay,
			RestartPolicy: &structs.RestartPolicy{Attempts: 2, Interval: time.Minute},
			Volumes: map[string]*structs.VolumeRequest{
				"v": {
					Name:         "v",
					Type:         "csi",
					MountOptions: &structs.CSIMountOptions{MountFlags: []string{"ro"}},
				},
			},
			Tasks: []*structs.Task{{
				Name:        "t",
				Driver:      "exec",
				Config:      map[string]any{"args": []any{"x", true, 2.5}},
				KillTimeout: time.Second,
				Resources:   &structs.Resources{CPU: 100},
				CSIPluginConfig: &structs.CSIPluginConfig{
					ID:            "p",
					Type:          "monolith",
					HealthTimeout: time.Minute,
				},
			}},
		}},
	}
}

func fullVolume() *structs.CSIVolume {
	return &structs.CSIVolume{
		ID: "/buckets/x",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:   "p",
			Secrets:    structs.Secrets{"k": "v"},
			Parameters: map[string]string{"a": "b"},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
			RequestedTopologies: &structs.CSITopologyRequest{
				Required: []*structs.CSITopology{{Segments: map[string]string{"z": "1"}}},
			},
		},
	}
}

func TestClient_CallsTheAgent(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	self, err := operator.ReadAgent(t.Context(), c)
	if err != nil ||
		self.Stats["client"]["node_id"] != "n1" ||
		self.Member.Name != "s1.global" {
		t.Errorf("got the agent %+v, error %v", self, err)
	}
	members, err := operator.ListMembers(t.Context(), c)
	if err != nil || members.ServerName != "s1.global" || members.ServerRegion != "global" ||
		len(members.Members) != 1 {
		t.Errorf("got the members %+v, error %v", members, err)
	}
	health, err := operator.ReadHealth(t.Context(), c)
	if err != nil || !health.Server.OK {
		t.Errorf("got the health %+v, error %v", health, err)
	}
	left := errors.Join(
		operator.Leave(t.Context(), c, true),
		operator.ForceLeave(t.Context(), c, "s1.global", false),
		operator.ForceLeave(t.Context(), c, "s1.global", true))
	want := []string{
		"leave true",
		"force-leave s1.global false",
		"force-leave s1.global true",
	}
	if got := s.agent.Leaves(); left != nil || !slices.Equal(got, want) {
		t.Errorf("got the calls %q, error %v, want %q", got, left, want)
	}
	err = operator.ForceLeave(t.Context(), c, "", false)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("force-leave without a server: got %v, want invalid", err)
	}
	joined, err := operator.Join(t.Context(), c, []string{"10.0.0.1", "10.0.0.9"})
	if err != nil || joined != 1 {
		t.Errorf("joined %d servers, error %v", joined, err)
	}
	_, err = operator.Join(t.Context(), c, []string{"10.0.0.9"})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("joining no server: got %v, want unavailable", err)
	}
	err = operator.Reload(t.Context(), c)
	if err != nil || s.agent.Reloads() != 1 {
		t.Errorf("reloaded %d times, error %v", s.agent.Reloads(), err)
	}
	var saved bytes.Buffer
	err = operator.SaveSnapshot(t.Context(), c, &saved)
	if err != nil || saved.String() != "an archive" {
		t.Errorf("saved %q, error %v", saved.String(), err)
	}
	keys := keyring.RestoreKeys{File: "a key\n", LoseSecrets: true}
	err = operator.RestoreSnapshot(t.Context(), c, &saved, keys)
	if err != nil || string(s.agent.Restored()) != "an archive" {
		t.Errorf("restored %q, error %v", s.agent.Restored(), err)
	}
	if got := s.agent.RestoreKeys(); got.File != "a key" || !got.LoseSecrets {
		t.Errorf("restored with %+v", got)
	}
	s.agent.Snapshot = nil
	err = operator.SaveSnapshot(t.Context(), c, &saved)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a snapshot without a leader: got %v, want unavailable", err)
	}
	job, err := jobs.Parse(t.Context(), c, &jobs.ParseRequest{
		JobHCL:       "variable \"t\" {}\njob \"j\" {\n  type = var.t\n}\n",
		Variables:    `{"t": "batch"}`,
		Canonicalize: true,
	})
	if err != nil ||
		job.ID != "j" ||
		job.Priority != structs.JobDefaultPriority {
		t.Errorf("got the job %+v, error %v", job, err)
	}
}

func TestClient_CallsOverAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "http.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: &apitest.Caller{},
		Agent:  newAgent(),
		Logger: hclog.NewNullLogger(),
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	c := api.NewClient(api.ClientConfig{Address: "unix://" + socket})
	defer c.Close()
	self, err := operator.ReadAgent(t.Context(), c)
	if err != nil || self.Member.Name != "s1.global" {
		t.Errorf("got the agent %+v, error %v", self, err)
	}
}

func TestClient_ErrorsHaveKindAndAddress(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	_ = ln.Close()
	silent := newServer(t)
	block := make(chan struct{})
	defer close(block)
	silent.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-block:
		}
	})
	odd := newServer(t)
	odd.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "self") {
			w.WriteHeader(http.StatusConflict)
			return
		}
		_, _ = w.Write([]byte("<html>"))
	})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for _, c := range []struct {
		name, address string
		kind          structs.Kind
		want          string
	}{
		{"http to https", strings.Replace(secure.URL, "https", "http", 1), structs.KindInvalid,
			"use https://"},
		{"https to http", strings.Replace(odd.URL, "http", "https", 1), structs.KindInvalid,
			"use http://"},
		{"no listener", "http://" + closed, structs.KindUnavailable,
			"no agent can be reached at http://" + closed},
		{"not a URL", "http://%", structs.KindInvalid, "is not of the form"},
		{"not a scheme", "ftp://x", structs.KindInvalid, "is not of the form"},
		{"no answer", silent.URL, structs.KindTimeout, "no answer"},
		{"another server", odd.URL, structs.KindConflict, "409 Conflict"},
	} {
		client := api.NewClient(api.ClientConfig{Address: c.address})
		limit := time.Minute
		if c.kind == structs.KindTimeout {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := operator.ReadAgent(ctx, client)
		cancel()
		client.Close()
		if structs.KindOf(err) != c.kind ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s (%v), want %s with %q",
				c.name, structs.KindOf(err), err, c.kind, c.want)
		}
	}
	client := api.NewClient(api.ClientConfig{Address: odd.URL})
	defer client.Close()
	_, err = operator.ListMembers(t.Context(), client)
	if !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("an answer that is not JSON: got %v, want internal", err)
	}
}

func TestClient_ReadsItsAddressFromTheEnvironment(t *testing.T) {
	t.Setenv("BERTH_ADDR", "10.1.2.3:99")
	check := func(configured, want string) {
		t.Helper()
		c := api.NewClient(api.ClientConfig{Address: configured})
		if got := c.Address(); got != want {
			t.Errorf("got the address %q, want %q", got, want)
		}
	}
	check("", "10.1.2.3:99")
	check("http://x:1", "http://x:1")
	t.Setenv("BERTH_ADDR", "")
	check("", api.DefaultAddress)
}

func TestClient_ReadsTheDelayBeforeARetry(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	for _, after := range []time.Duration{250 * time.Millisecond, 3 * time.Second, 0} {
		busy := structs.Errorf(structs.KindUnavailable, "claiming: %w",
			structs.Busy(after, "too much to do"))
		apitest.Fail(s.caller, structs.CSIVolumeList, busy)
		apitest.Fail(s.caller, structs.NodeDeregister, busy)
		resp, _ := s.do(t, "GET", "/v1/volumes", "")
		want := map[time.Duration]string{
			250 * time.Millisecond: "1",
			3 * time.Second:        "3",
		}[after]
		got := resp.Header.Get("Retry-After")
		if resp.StatusCode != http.StatusServiceUnavailable || got != want {
			t.Errorf("after %s: status %d, Retry-After %q, want 503 and %q", after, resp.StatusCode, got, want)
		}
		err := nodes.Purge(t.Context(), c, "n1")
		if structs.RetryAfter(err) != after ||
			err.Error() != "claiming: too much to do" {
			t.Errorf("the client got %v, after %s, want %s", err, structs.RetryAfter(err), after)
		}
	}
}
