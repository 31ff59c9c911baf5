package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"berth/client/drivers/driver"
)

// saveAs returns an archive with an image under several names.
func (n *node) saveAs(image string, names ...string) []byte {
	n.t.Helper()
	api, err := client.New(client.WithHost(n.Endpoint()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer api.Close()
	for _, name := range names {
		_, err := api.ImageTag(n.ctx, client.ImageTagOptions{Source: image, Target: name})
		if err != nil {
			n.t.Fatal(err)
		}
	}
	archive := n.Save(names...)
	for _, name := range names {
		_, err := api.ImageRemove(n.ctx, name, client.ImageRemoveOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return archive
}

// loads makes a task load an archive.
func (n *node) loads(cfg *driver.TaskConfig, image string, archive []byte) *driver.TaskConfig {
	n.t.Helper()
	err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "image.tar"), archive, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	cfg.Config["image"] = image
	cfg.Config["load"] = "image.tar"
	return cfg
}

// TestDaemon_LoadReplacesNoNameOfOthers: an archive has the names of the pause image and of another job's
// image.
func TestDaemon_LoadReplacesNoNameOfOthers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("hostile:1", "ENV HOSTILE=1", `HEALTHCHECK --interval=1s CMD ["/program", "out:healthy"]`)
	archive := n.saveAs("hostile:1", "shared:1", pauseImage, "own:1")
	n.Import("shared:1")
	shared, err := d.engine.Image(n.ctx, "shared:1")
	if err != nil {
		t.Fatal(err)
	}
	hostile := n.loads(n.task("hostile", "out:loaded"), "own:1", archive)
	if _, out := n.run(d, hostile); out != "loaded\n" {
		t.Errorf("the task with the archive printed %q", out)
	}
	after, err := d.engine.Image(n.ctx, "shared:1")
	if err != nil || after.ID != shared.ID {
		t.Errorf("the image of another job is %s in place of %s, %v", after.ID, shared.ID, err)
	}
	for _, name := range []string{pauseImage, "own:1"} {
		if image, err := d.engine.Image(n.ctx, name); !isGone(err) {
			t.Errorf("the load made the name %s: %+v, %v", name, image, err)
		}
	}
}

// TestDaemon_PauseContainerInheritsNothing of an image that has the name of the driver's own.
func TestDaemon_PauseContainerInheritsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import(pauseImage, "ENV HOSTILE=1", "VOLUME /v", "USER web", "LABEL hostile=1", "WORKDIR /tmp",
		"HEALTHCHECK --interval=1s CMD [\"/program\"]")
	in := n.network("ns")
	n.start(d, n.member("al", "web", in, "trap:0"))
	c, err := d.engine.Inspect(n.ctx, pauseName("al"))
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Config.Healthcheck; h == nil || !slices.Equal(h.Test, []string{"NONE"}) || c.State.Health != nil {
		t.Errorf("the check of the health is %+v, its state %+v", h, c.State.Health)
	}
	hostile := slices.ContainsFunc(c.Config.Env, func(v string) bool { return strings.HasPrefix(v, "HOSTILE=") })
	if hostile || len(c.Config.Volumes) != 0 || c.Config.Labels["hostile"] != "" ||
		c.Config.User != "0:0" || c.Config.WorkingDir != "/" || c.Config.StopSignal != "SIGTERM" {
		t.Errorf("the container has %+v", c.Config)
	}
	image, err := d.engine.Image(n.ctx, c.Image)
	if err != nil || !image.Empty {
		t.Errorf("the image is %+v, %v", image, err)
	}
}

// TestDaemon_PauseContainerGivesItsCapabilityUp once it is in the namespace.
func TestDaemon_PauseContainerGivesItsCapabilityUp(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.start(d, n.member("al", "web", n.network("ns"), "trap:0"))
	c, err := d.engine.Inspect(n.ctx, pauseName("al"))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line+"\n") {
			t.Errorf("the status of the process lacks %q:\n%s", line, status)
		}
	}
}

// TestDaemon_TaskIsNoPauseContainer although its image or its job has the label of one.
func TestDaemon_TaskIsNoPauseContainer(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("labelled:1", "LABEL "+labelPause+"=al")
	byImage := n.task("image", "trap:0")
	byImage.Config["image"] = "labelled:1"
	byJob := n.task("job", "trap:0")
	byJob.Config["labels"] = map[string]any{labelPause: "al"}
	for _, cfg := range []*driver.TaskConfig{byImage, byJob} {
		n.start(d, cfg)
		c, err := d.engine.Inspect(n.ctx, containerName(cfg.ID))
		if err != nil {
			t.Fatal(err)
		}
		if name, wanted := d.tasks.useOf(c.Config.Labels); name != containerName(cfg.ID) || !wanted {
			t.Errorf("the container of %s counts as %s, wanted %t", cfg.ID, name, wanted)
		}
	}
}
