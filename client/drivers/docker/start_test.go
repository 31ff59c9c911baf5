package docker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/registry"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/driver"
	"berth/structs"
)

// An absence of the daemon is no failure of a task: it costs no attempt of the restart policy.
func TestStart_WaitsForTheDaemon(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	cfg := f.task("a1")
	f.Stop()
	started := make(chan error, 1)
	go func() {
		_, err := d.Start(t.Context(), cfg)
		started <- err
	}()
	awaitEvent(t, f)
	f.Serve()
	select {
	case err := <-started:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the task does not start")
	}
	if c := f.container(cfg); !c.State.Running || len(f.events) != 1 {
		t.Errorf("the container is %+v, the events are %+v", c.State, f.events)
	}
	f.Stop()
	if _, err := d.Start(shortContext(t), f.task("a2")); err == nil {
		t.Error("a task that is not wanted any more has started")
	}
}

// credentials returns the credentials of a download.
func (f *fixture) credentials(r *http.Request) (auth registry.AuthConfig) {
	text, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &auth)
	}
	if err != nil {
		f.t.Error(err)
	}
	return auth
}

// pulls makes the daemon give every image that it is asked for, and returns the credentials of the request.
func (f *fixture) pulls() <-chan registry.AuthConfig {
	asked := make(chan registry.AuthConfig, 10)
	f.Handle("POST /images/create", func(_ http.ResponseWriter, r *http.Request) {
		asked <- f.credentials(r)
		f.AddImage(r.URL.Query().Get("fromImage")+":"+r.URL.Query().Get("tag"), "sha256:pulled")
	})
	return asked
}

func TestStart_DownloadsTheImage(t *testing.T) {
	own := map[string]any{"username": "own", "password": "p1"}
	for name, c := range map[string]struct {
		config map[string]any
		want   registry.AuthConfig
	}{
		"with its credentials": {
			map[string]any{"image": "reg:5000/b:1", "auth": own},
			registry.AuthConfig{Username: "own", Password: "p1"},
		},
		"with those of the node": {
			map[string]any{"image": "reg:5000/b:1"},
			registry.AuthConfig{Username: "node", Password: "p2", ServerAddress: "reg:5000"},
		},
		"without any": {map[string]any{"image": "other:5000/b:1"}, registry.AuthConfig{}},
		"although the daemon has it": {
			map[string]any{"image": "other:5000/a:1", "force_pull": true}, registry.AuthConfig{},
		},
	} {
		f := newFixture(t)
		f.AddImage("other:5000/a:1", "sha256:old")
		asked := f.pulls()
		settings := f.config()
		settings.Auth.Config = filepath.Join(f.dir, "auth.json")
		err := os.WriteFile(settings.Auth.Config,
			[]byte(`{"auths":{"reg:5000":{"username":"node","password":"p2"}}}`), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		cfg := f.task("a1")
		cfg.Config = c.config
		f.start(f.agent(settings), cfg)
		if len(asked) != 1 {
			t.Fatalf("%s: there were %d downloads", name, len(asked))
		}
		if got := <-asked; got != c.want {
			t.Errorf("%s: got the credentials %+v", name, got)
		}
		if image := f.container(cfg).Request.Image; image != "sha256:pulled" {
			t.Errorf("%s: the container has %s", name, image)
		}
	}
}

// TestStart_GoesOnWithoutCredentials that cannot be had or that the registry rejects, if the job wants that.
func TestStart_GoesOnWithoutCredentials(t *testing.T) {
	own := map[string]any{"username": "own", "password": "p1"}
	for name, c := range map[string]struct {
		config map[string]any
		helper string
		asks   []string // the users of the downloads
		fails  string
	}{
		"rejected": {
			config: map[string]any{"image": "reg:5000/b:1", "auth": own, "auth_soft_fail": true},
			asks:   []string{"own", ""},
		},
		"rejected, and the image is there": {
			config: map[string]any{
				"image": "a:1", "force_pull": true, "auth": own, "auth_soft_fail": true,
			},
			asks: []string{"own", ""},
		},
		"rejected for good": {
			config: map[string]any{"image": "reg:5000/b:1", "auth": own},
			asks:   []string{"own"},
			fails:  "incorrect password",
		},
		"rejected both times": {
			config: map[string]any{"image": "reg:5000/private:1", "auth": own, "auth_soft_fail": true},
			asks:   []string{"own", ""},
			fails:  "pull access denied; with credentials: docker: downloading image reg:5000/private:1",
		},
		"without any": {
			config: map[string]any{"image": "reg:5000/private:1", "auth_soft_fail": true},
			asks:   []string{""},
			fails:  "denied",
		},
		"a missing helper": {
			config: map[string]any{"image": "reg:5000/b:1", "auth_soft_fail": true},
			helper: "missing",
			asks:   []string{""},
		},
		"a missing helper for good": {
			config: map[string]any{"image": "reg:5000/b:1"},
			helper: "missing",
			fails:  "asking docker-credential-missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			asked := f.rejectsCredentials()
			settings := f.config()
			settings.Auth.Helper = c.helper
			cfg := f.task("a1")
			cfg.Config = c.config
			_, err := f.agent(settings).Start(t.Context(), cfg)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v, want %q", err, c.fails)
			}
			var users []string
			for len(asked) > 0 {
				users = append(users, <-asked)
			}
			if !slices.Equal(users, c.asks) {
				t.Errorf("the downloads had the users %q, want %q", users, c.asks)
			}
			told := slices.ContainsFunc(f.events, func(e driver.TaskEvent) bool {
				return strings.Contains(e.Message, "without credentials (auth_soft_fail)")
			})
			if tries := len(c.asks) == 2 || c.helper != "" && c.fails == ""; told != tries {
				t.Errorf("the events are %+v", f.events)
			}
		})
	}
}

// rejectsCredentials makes the daemon's registry reject all credentials, and all downloads of private:1. It
// returns the users of the downloads.
func (f *fixture) rejectsCredentials() <-chan string {
	asked := make(chan string, 10)
	f.Handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		auth := f.credentials(r)
		asked <- auth.Username
		name := r.URL.Query().Get("fromImage")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case auth.Username != "":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"message":"unauthorized: incorrect password"}`)
		case strings.HasSuffix(name, "private"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"pull access denied"}`)
		default:
			f.AddImage(name+":"+r.URL.Query().Get("tag"), "sha256:pulled")
		}
	})
	return asked
}

func TestStart_BoundsTheDownload(t *testing.T) {
	f := newFixture(t)
	f.Hang("POST /images/create")
	cfg := f.task("a1")
	cfg.Config = map[string]any{"image": "b:1", "image_pull_timeout": "30ms"}
	_, err := f.agent(f.config()).Start(t.Context(), cfg)
	late := "is not there after 30ms"
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), late) {
		t.Errorf("got %v", err)
	}
}

// A privileged container has all capabilities that this machine has, another one only the ones that it gets.
func TestStart_GivesPrivilegesThatTheNodeAllows(t *testing.T) {
	f := newFixture(t)
	for _, privileged := range []bool{false, true} {
		cfg := f.task(fmt.Sprint(privileged))
		h := f.created(f.permissive(), cfg, map[string]any{"privileged": privileged}).HostConfig
		all := h.Privileged || slices.Contains(h.CapAdd, "ALL")
		confined := slices.Contains(h.CapDrop, "ALL")
		if all != privileged || confined == privileged {
			t.Errorf("privileged=%t: got %+v", privileged, h)
		}
	}
}

// Some programs end in order only with the signal of their image.
func TestStop_SendsTheSignalOfTheImage(t *testing.T) {
	for _, c := range []struct{ image, job, want string }{
		{"", "", "SIGTERM"},
		{"SIGQUIT", "", "SIGQUIT"},
		{"SIGRTMIN+3", "", "SIGRTMIN+3"},
		{"SIGQUIT", "SIGINT", "SIGINT"},
	} {
		f := newFixture(t)
		d := f.agent(f.config())
		cfg := f.task("a1")
		f.start(d, cfg)
		f.Change("web-a1", func(r *dockertest.FakeContainer) { r.Request.Config.StopSignal = c.image })
		sent := make(chan string, 10)
		f.Handle("POST /containers/{id}/kill", func(w http.ResponseWriter, r *http.Request) {
			sent <- r.URL.Query().Get("signal")
			f.End("web-a1", 0)
			w.WriteHeader(http.StatusNoContent)
		})
		if err := d.Stop(t.Context(), cfg.ID, c.job, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := <-sent; got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
		if err := d.Stop(t.Context(), cfg.ID, c.job, time.Minute); err != nil {
			t.Errorf("%+v: after its end: %v", c, err)
		}
	}
}

// TestStart_TellsOfTheNetworkOfTheDaemon: the daemon's own bridge is not advertised.
func TestStart_TellsOfTheNetworkOfTheDaemon(t *testing.T) {
	type networks = map[string]*network.EndpointSettings
	at := func(address string) *network.EndpointSettings {
		return &network.EndpointSettings{IPAddress: netip.MustParseAddr(address)}
	}
	for name, c := range map[string]struct {
		networks networks
		want     *driver.Location
	}{
		"the node's": {networks{"host": {}}, nil},
		"none":       {nil, nil},
		"the bridge": {networks{"bridge": at("172.17.0.2")}, &driver.Location{Address: "172.17.0.2"}},
		"another one": {networks{"lab": at("172.18.0.2")},
			&driver.Location{Address: "172.18.0.2", Advertised: true}},
		"the first of some": {networks{"lab": at("172.18.0.2"), "a": {}, "bridge": at("172.17.0.2")},
			&driver.Location{Address: "172.17.0.2"}},
	} {
		f := newFixture(t)
		d := f.agent(f.config())
		cfg := f.task("a1")
		f.Networks = c.networks
		h := f.start(d, cfg)
		if !reflect.DeepEqual(h.Location, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, h.Location, c.want)
		}
		found := &driver.Handle{Driver: Name, TaskID: cfg.ID} // of a start that was not recorded
		err := f.agent(f.config()).Recover(t.Context(), found)
		if err != nil || !reflect.DeepEqual(found.Location, c.want) {
			t.Errorf("%s: recovered at %+v, %v", name, found.Location, err)
		}
	}
}
