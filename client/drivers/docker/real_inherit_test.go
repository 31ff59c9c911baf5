package docker

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// TestDaemon_ChecksNoHealthInAPluginContainer unless the job asks for it: the check of an image would run
// with all privileges.
func TestDaemon_ChecksNoHealthInAPluginContainer(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("checked:1", `HEALTHCHECK --interval=100ms CMD ["/program", "exit:0"]`)
	cfg := n.task("plugin", "ignore")
	cfg.Config["image"] = "checked:1"
	cfg.Privileged = true
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	c := n.inspect(d, cfg)
	if h := c.Config.Healthcheck; h == nil || !slices.Equal(h.Test, []string{"NONE"}) || c.State.Health != nil {
		t.Errorf("the check of the health is %+v, its state %+v", h, c.State.Health)
	}
	n.destroy(d, cfg)
	asked := n.task("asked", "ignore")
	asked.Config["image"] = "checked:1"
	asked.Config["healthchecks"] = map[string]any{"test": []any{"/program", "exit:1"}, "interval": "100ms"}
	asked.Privileged = true
	n.start(d, asked)
	n.awaitOutput(asked, "ready\n")
	if h := n.inspect(d, asked).Config.Healthcheck; h == nil || !slices.Contains(h.Test, "exit:1") {
		t.Errorf("the check of the job is %+v", h)
	}
	n.destroy(d, asked)
}

// configured gives the daemon the image program:1 under another name, with a field of its configuration that
// a build would reject.
func (n *node) configured(name, field string, value any) {
	n.t.Helper()
	images, files, err := dockertest.ReadSaved(bytes.NewReader(n.Save("program:1")))
	if err != nil {
		n.t.Fatal(err)
	}
	var image map[string]any
	err = json.Unmarshal([]byte(files[images[0].Config]), &image)
	if err != nil {
		n.t.Fatal(err)
	}
	image["config"].(map[string]any)[field] = value
	text, err := json.Marshal(image)
	if err != nil {
		n.t.Fatal(err)
	}
	files[images[0].Config] = string(text)
	images[0].RepoTags = []string{name}
	var list []dockertest.File
	for _, path := range images[0].Layers {
		list = append(list, dockertest.File{Name: path, Content: files[path]})
	}
	list = append(list, dockertest.File{Name: images[0].Config, Content: string(text)})
	api, err := client.New(client.WithHost(n.Endpoint()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer api.Close()
	stream, err := api.ImageLoad(n.ctx, bytes.NewReader(dockertest.Saved(n.t, images, list...)))
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	_, err = io.Copy(io.Discard, stream)
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestDaemon_RejectsAnImageWithAnUnknownSignal: the container would get no signal but SIGKILL.
func TestDaemon_RejectsAnImageWithAnUnknownSignal(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.configured("odd:1", "StopSignal", "SIGNONSENSE")
	cfg := n.task("odd", "trap:7")
	cfg.Config["image"] = "odd:1"
	_, err := d.Start(n.ctx, cfg)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "SIGNONSENSE") {
		t.Errorf("got %v", err)
	}
	if got := n.names(d); got != "" {
		t.Errorf("left are %s", got)
	}
	n.configured("realtime:1", "StopSignal", "SIGRTMIN+3")
	known := n.task("known", "trap:7")
	known.Config["image"] = "realtime:1"
	n.start(d, known)
	if got := n.inspect(d, known).Config.StopSignal; got != "SIGRTMIN+3" {
		t.Errorf("the signal of the container is %q", got)
	}
	n.destroy(d, known)
}

// volumes lists the volumes of the daemon.
func (n *node) volumes() int {
	n.t.Helper()
	api, err := client.New(client.WithHost(n.Endpoint()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer api.Close()
	list, err := api.VolumeList(n.ctx, client.VolumeListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return len(list.Items)
}

// TestDaemon_RemovesTheVolumesOfAnImage with the container, also after a failed start and in a search for
// containers without a task. A mount of berth has the place of one.
func TestDaemon_RemovesTheVolumesOfAnImage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, stop := n.agent()
	n.Import("volumes:1", "VOLUME /v", "VOLUME /alloc", "VOLUME /secrets")
	cfg := n.task("volumes", "make:/v/file", "make:/alloc/file", "trap:0")
	cfg.Config["image"] = "volumes:1"
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	if got := n.volumes(); got != 1 {
		t.Errorf("the daemon has %d volumes, want that of /v", got)
	}
	n.destroy(d, cfg)
	failing := n.task("failing", "trap:0")
	failing.Config["image"] = "volumes:1"
	failing.Config["entrypoint"] = []any{"/missing"}
	if _, err := d.Start(n.ctx, failing); err == nil {
		t.Error("a task without a program starts")
	}
	lost := n.task("lost", "trap:0")
	lost.Config["image"] = "volumes:1"
	n.start(d, lost)
	n.awaitOutput(lost, "ready\n")
	stop()
	n.cfg.GC.Dangling.CreationGrace = time.Nanosecond
	d = n.driver()
	d.searchDangling(n.ctx, d.searchDangling(n.ctx, nil))
	if got := n.volumes(); got != 0 {
		t.Errorf("the daemon has %d volumes after the end of the tasks", got)
	}
	if got := n.names(d); got != "" {
		t.Errorf("left are %s", got)
	}
}
