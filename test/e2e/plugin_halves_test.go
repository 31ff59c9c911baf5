package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"berth/structs"
)

// Two jobs run the two halves of a plugin, as its vendors ship it.
func TestPluginHalves_RunAsTwoJobs(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.start()
	c := &testCluster{
		t:       t,
		servers: []*agent{a},
		nodes:   []*agent{a},
	}
	a.must("job", "run", "-detach", st.writePluginJob(a, "nodes", "system", "node"))
	eventually(t, "the node half alone makes nothing", func() error {
		p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/shelf")
		if err == nil && (p.NodesHealthy != 1 ||
			p.ControllersHealthy != 0 || !p.ControllerRequired) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	early := st.writeVolume(a, "v", 300)
	eventually(t, "the status of the volume names the missing half", func() error {
		// A busy machine may not send the request before the timeout.
		a.mustFail(8, []string{"continues"}, "volume", "create", "-timeout", "100ms", early)
		out, err := a.run("volume", "status", "v")
		if err == nil && !strings.Contains(out, "no controller") {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
	a.must("job", "run", "-detach",
		st.writePluginJob(a, "controller", "service", "controller"))
	a.healthyNodes("shelf", 1)
	a.must("volume", "create", early)
	a.runUntilOutput(appendingJob("v", "one", "first"), "first")
	c.awaitAgreement(st)
	st.createVolume(a, "v", 360)
	a.must("job", "stop", "v")
	a.awaitFree("v")
	c.awaitAgreement(st)

	// Without a controller nothing is attached, and the status says so. With a new one the attach continues.
	a.must("job", "stop", "-purge", "controller")
	eventually(t, "no controller", func() error {
		p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/shelf")
		if err == nil && p.ControllersHealthy > 0 {
			err = fmt.Errorf("%d controllers", p.ControllersHealthy)
		}
		return err
	})
	a.must("job", "run", "-detach",
		a.writeJob(appendingJob("v", "one", "second")))
	eventually(t, "the status says that no controller is there", func() error {
		out, err := a.run("job", "status", "v")
		if err == nil && !strings.Contains(out, "controller") {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
	if at := st.recordedPlaces("attached"); len(at) > 0 {
		t.Errorf("attached without a controller: %v", at)
	}
	a.must("job", "run", "-detach",
		st.writePluginJob(a, "controller", "service", "controller"))
	a.runUntilOutput(appendingJob("v", "one", "second"), "first", "second")
	c.awaitAgreement(st)

	a.must("job", "stop", "-purge", "v")
	a.awaitFree("v")
	a.mustEventually("volume", "delete", "v") // once it is detached
	for _, job := range []string{"controller", "nodes"} {
		a.must("job", "stop", "-purge", job)
	}
	eventually(t, "the plugin is not found", func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/plugin/csi/shelf", a.http))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
	st.checkCallOrder()
}
