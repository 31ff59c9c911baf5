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
	"berth/api/apitest"
	"berth/internal/keyring"
	"berth/structs"
)

// TestClient_EachMethodReachesARoute calls all methods with invented arguments. Each sends one request to a
// route, and the request has the texts of the arguments.
func TestClient_EachMethodReachesARoute(t *testing.T) {
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
	methods := reflect.ValueOf(c)
	called := 0
	for n := range methods.NumMethod() {
		name := methods.Type().Method(n).Name
		method := methods.Method(n)
		if method.Type().NumIn() == 0 ||
			method.Type().In(0) != reflect.TypeFor[context.Context]() {
			continue
		}
		called++
		asked = nil
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		texts := 0
		for i := 1; i < method.Type().NumIn(); i++ {
			if method.Type().In(i).Kind() == reflect.String {
				texts++
			}
			args = append(args, sampleArgument(method.Type().In(i)))
		}
		out := method.Call(args)
		err, _ := out[len(out)-1].Interface().(error)
		if len(asked) != 1 || !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("%s sent %q and returned %v, want one request and a conflict", name, asked, err)
		}
		sent := strings.Count(strings.Join(asked, ""), "an/id")
		if sent < texts {
			t.Errorf("%s sent %q, want all %d texts of its arguments", name, asked, texts)
		}
	}
	if called < 40 {
		t.Errorf("%d methods were called, want at least 40", called)
	}
}

// sampleArgument returns an argument of a method of the client.
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
	}
	return v
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
		"Job.List":           func() error { _, _, err := c.Jobs(ctx, nil); return err },
		"Job.GetJob":         func() error { _, _, err := c.Job(ctx, "a/b c%", nil); return err },
		"Job.Why":            func() error { _, _, err := c.JobWhy(ctx, "a/b", nil); return err },
		"Job.Summary":        func() error { _, _, err := c.JobSummary(ctx, "a/b", nil); return err },
		"Job.Allocations":    func() error { _, _, err := c.JobAllocations(ctx, "a/b", true, nil); return err },
		"Job.Evaluations":    func() error { _, _, err := c.JobEvaluations(ctx, "a/b", nil); return err },
		"Job.GetJobVersions": func() error { _, err := c.JobVersions(ctx, "a/b", api.JobDiffs{}); return err },
		"Job.Register": func() error {
			_, err := c.JobRegister(ctx, fullJob(), api.JobRegisterOptions{})
			return err
		},
		"Job.Deregister": func() error { _, err := c.JobDeregister(ctx, "a/b", api.JobDeregisterOptions{Purge: true}); return err },
		"Job.Validate":   func() error { _, err := c.JobValidate(ctx, fullJob()); return err },
		"Job.Dispatch":   func() error { _, err := c.JobDispatch(ctx, "a/b", api.JobDispatchBody{}); return err },
		"Periodic.Force": func() error { _, err := c.JobPeriodicForce(ctx, "a/b"); return err },
		"Job.Revert":     func() error { _, err := c.JobRevert(ctx, "a/b", 3, api.JobRevertOptions{}); return err },
		"Job.Scale": func() error {
			_, err := c.JobScale(ctx, "a/b", "g", structs.ScalingEvent{Count: new(int64(3))})
			return err
		},
		"Job.ScaleStatus":        func() error { _, err := c.JobScaleStatus(ctx, "a/b"); return err },
		"Job.Plan":               func() error { _, err := c.JobPlan(ctx, fullJob(), true); return err },
		"Job.Evaluate":           func() error { _, err := c.JobEvaluate(ctx, "a/b", true); return err },
		"Alloc.List":             func() error { _, _, err := c.Allocations(ctx, nil); return err },
		"Alloc.GetAlloc":         func() error { _, _, err := c.Allocation(ctx, "x", nil); return err },
		"Alloc.Stop":             func() error { _, err := c.AllocStop(ctx, "x", api.AllocStopOptions{}); return err },
		"Eval.List":              func() error { _, _, err := c.Evaluations(ctx, nil); return err },
		"Eval.GetEval":           func() error { _, _, err := c.Evaluation(ctx, "x", nil); return err },
		"Eval.Allocations":       func() error { _, _, err := c.EvalAllocations(ctx, "x", nil); return err },
		"Node.List":              func() error { _, _, err := c.Nodes(ctx, nil); return err },
		"Node.Get":               func() error { _, _, err := c.Node(ctx, "n", nil); return err },
		"Node.GetAllocs":         func() error { _, _, err := c.NodeAllocations(ctx, "n", nil); return err },
		"Node.UpdateEligibility": func() error { return c.NodeEligibility(ctx, "n", true) },
		"Node.UpdateDrain":       func() error { return c.NodeDrain(ctx, "n", api.NodeDrain{}) },
		"Node.DrainStatus":       func() error { _, _, err := c.NodeDrainStatus(ctx, "n", nil); return err },
		"Node.Evaluate":          func() error { _, err := c.NodeEvaluate(ctx, "n"); return err },
		"Node.Deregister":        func() error { return c.NodePurge(ctx, "n") },
		"CSIVolume.List": func() error {
			_, _, err := c.Volumes(ctx, api.VolumeFilter{PluginID: "p"}, nil)
			return err
		},
		"CSIVolume.Get": func() error { _, _, err := c.Volume(ctx, "/buckets/x", nil); return err },
		"CSIVolume.ListClaims": func() error {
			_, _, err := c.VolumeClaims(ctx, "/buckets/x", nil)
			return err
		},
		"CSIVolume.Register": func() error {
			_, err := c.VolumeRegister(ctx, fullVolume())
			return err
		},
		"CSIVolume.Create": func() error {
			_, err := c.VolumeCreate(ctx, fullVolume())
			return err
		},
		"CSIVolume.Deregister": func() error { return c.VolumeDeregister(ctx, "v", true) },
		"CSIVolume.Delete": func() error {
			return c.VolumeDelete(ctx, "v", api.VolumeDeletion{Secrets: structs.Secrets{"a": "x,y=z"}})
		},
		"CSIVolume.Detach": func() error {
			_, err := c.VolumeDetach(ctx, "v", api.VolumeDetachOptions{
				NodeID: "n",
				Reason: "r & s",
				By:     "me",
			})
			return err
		},
		"CSIVolume.ListExternal":     func() error { _, err := c.VolumesExternal(ctx, "p", nil); return err },
		"CSIPlugin.List":             func() error { _, _, err := c.Plugins(ctx, nil); return err },
		"CSIPlugin.Get":              func() error { _, _, err := c.Plugin(ctx, "p", nil); return err },
		"CSIPlugin.Delete":           func() error { return c.PluginDelete(ctx, "p") },
		"Status.Leader":              func() error { _, err := c.StatusLeader(ctx); return err },
		"Status.Peers":               func() error { _, err := c.StatusPeers(ctx); return err },
		"Operator.RaftConfiguration": func() error { _, err := c.RaftConfiguration(ctx, nil); return err },
		"Operator.RaftRemovePeer":    func() error { return c.RaftRemovePeer(ctx, "s1", "") },
		"Operator.RaftTransferLeadership": func() error {
			return c.RaftTransferLeadership(ctx, "s1", "")
		},
		"Eval.Count": func() error { _, _, err := c.EvaluationCount(ctx, nil); return err },
		"Eval.Delete": func() error {
			_, err := c.EvaluationsDelete(ctx, api.EvalDelete{EvalIDs: []string{"e1"}})
			return err
		},
		"System.GarbageCollect": func() error { return c.SystemGC(ctx) },
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
	self, err := c.AgentSelf(t.Context())
	if err != nil ||
		self.Stats["client"]["node_id"] != "n1" ||
		self.Member.Name != "s1.global" {
		t.Errorf("got the agent %+v, error %v", self, err)
	}
	members, err := c.AgentMembers(t.Context())
	if err != nil || members.ServerName != "s1.global" || members.ServerRegion != "global" ||
		len(members.Members) != 1 {
		t.Errorf("got the members %+v, error %v", members, err)
	}
	health, err := c.AgentHealth(t.Context())
	if err != nil || !health.Server.OK {
		t.Errorf("got the health %+v, error %v", health, err)
	}
	left := errors.Join(
		c.AgentLeave(t.Context(), true),
		c.AgentForceLeave(t.Context(), "s1.global", false),
		c.AgentForceLeave(t.Context(), "s1.global", true))
	want := []string{
		"leave true",
		"force-leave s1.global false",
		"force-leave s1.global true",
	}
	if got := s.agent.Leaves(); left != nil || !slices.Equal(got, want) {
		t.Errorf("got the calls %q, error %v, want %q", got, left, want)
	}
	err = c.AgentForceLeave(t.Context(), "", false)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("force-leave without a server: got %v, want invalid", err)
	}
	joined, err := c.AgentJoin(t.Context(), []string{"10.0.0.1", "10.0.0.9"})
	if err != nil || joined != 1 {
		t.Errorf("joined %d servers, error %v", joined, err)
	}
	_, err = c.AgentJoin(t.Context(), []string{"10.0.0.9"})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("joining no server: got %v, want unavailable", err)
	}
	err = c.AgentReload(t.Context())
	if err != nil || s.agent.Reloads() != 1 {
		t.Errorf("reloaded %d times, error %v", s.agent.Reloads(), err)
	}
	var saved bytes.Buffer
	err = c.SnapshotSave(t.Context(), &saved)
	if err != nil || saved.String() != "an archive" {
		t.Errorf("saved %q, error %v", saved.String(), err)
	}
	err = c.SnapshotRestore(t.Context(), &saved, keyring.RestoreKeys{File: "a key\n", LoseSecrets: true})
	if err != nil || string(s.agent.Restored()) != "an archive" {
		t.Errorf("restored %q, error %v", s.agent.Restored(), err)
	}
	if got := s.agent.RestoreKeys(); got.File != "a key" || !got.LoseSecrets {
		t.Errorf("restored with %+v", got)
	}
	s.agent.Snapshot = nil
	err = c.SnapshotSave(t.Context(), &saved)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a snapshot without a leader: got %v, want unavailable", err)
	}
	job, err := c.JobParse(t.Context(), &api.JobParseRequest{
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
	self, err := c.AgentSelf(t.Context())
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
		_, err := client.AgentSelf(ctx)
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
	_, err = client.AgentMembers(t.Context())
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
		err := c.NodePurge(t.Context(), "n1")
		if structs.RetryAfter(err) != after ||
			err.Error() != "claiming: too much to do" {
			t.Errorf("the client got %v, after %s, want %s", err, structs.RetryAfter(err), after)
		}
	}
}
