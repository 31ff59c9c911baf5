// Package volume has the commands on volumes, host volumes and snapshots, and on the CSI plugins that have
// them.
package volume

import (
	"cmp"
	"context"
	"fmt"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/validate"
)

// Commands are the verbs of berth volume.
var Commands = []command.Command{
	{
		Name:     "init",
		Args:     "[file]",
		Synopsis: "Write an example of a volume file (volume.hcl)",
		Local:    true,
		Flags:    []command.Flag{typeFlag},
		Run:      volumeInit,
		Examples: "berth volume init\n" +
			"berth volume init data.hcl\n" +
			"berth volume init -type host",
	},
	{
		Name:     "create",
		Args:     "<file>",
		Synopsis: "Create a volume at its plugin",
		Help: `
A file with type = "host" is that of a dynamic host volume: the servers choose
its node, and print its ID.`,
		Acts: true,
		Flags: []command.Flag{
			pluginTimeout,
			{Name: "detach", Usage: "Do not wait for the plugin; for a dynamic host volume"},
		},
		Run:      volumeCreate,
		Examples: "berth volume create data.hcl",
	},
	{
		Name:     "register",
		Args:     "<file>",
		Synopsis: "Register an existing volume of a plugin",
		Acts:     true,
		Run:      volumeRegister,
		Examples: "berth volume register data.hcl",
	},
	volumeWhyCommand,
	listCommand,
	{
		Name:     "status",
		Args:     "[volume]",
		Synopsis: "List volumes, or show one with its claims and attachments",
		Renders:  true,
		Flags: []command.Flag{
			{
				Name:  "verbose",
				Usage: "Also list the volumes that plugins report, including those that berth does not have",
			},
			{
				Name:  "external",
				Kind:  command.String,
				Value: "plugin",
				Usage: "List the volumes that one plugin reports, and which of them no volume of berth has",
			},
			{
				Name:  "plugin",
				Kind:  command.String,
				Value: "id",
				Usage: "List the volumes of one plugin",
			},
			{
				Name:  "class",
				Kind:  command.String,
				Value: "name",
				Usage: "List the volumes of one class",
			},
			{
				Name:  "node",
				Kind:  command.String,
				Value: "id",
				Usage: "List the volumes in use on one node, with -type host those on it",
			},
			{
				Name:  "filter",
				Kind:  command.String,
				Value: "expression",
				Usage: "List only the volumes that match",
			},
			typeFlag,
		},
		Run: volumeStatus,
		Examples: "berth volume status\n" +
			"berth volume status data\n" +
			"berth volume status -node n1\n" +
			"berth volume status -external hostpath\n" +
			"berth volume status -type host",
	},
	{
		Name:     "deregister",
		Args:     "<volume>",
		Synopsis: "Deregister a volume and leave it at its plugin",
		Acts:     true,
		Flags: []command.Flag{{Name: "force",
			Usage: "Deregister even if claims wait or a detach is in flight"}},
		Run: func(ctx context.Context, c *command.Call) error {
			id := c.Arg(0)
			seen, _, err := volumes.Get(ctx, c.API, id, nil)
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = volumes.Deregister(ctx, on, id, c.Bool("force"))
			if err != nil {
				return watch.VolumeFault(ctx, c, id, err)
			}
			return c.Report(command.Changed{"VolumeID": id}, "Volume %q is deregistered", id)
		},
		Examples: "berth volume deregister data\n" +
			"berth volume deregister -force data",
	},
	{
		Name:     "delete",
		Args:     "<volume>",
		Synopsis: "Delete a volume and its data at the plugin",
		Help: `
A volume with reclaim = "delete" is not deleted at once: it is marked, and its
plugin deletes it after its delete_after. Until then berth volume undelete
keeps it. Allocations that use it, or wait for it, have to be stopped before.
All other volumes are deleted at once.`,
		Acts: true,
		Flags: []command.Flag{
			{
				Name:  "secret",
				Kind:  command.Strings,
				Value: "key=value",
				Usage: "A secret for the plugin; may be given more than once",
			},
			{Name: "now", Usage: "Delete the volume at once, also one with reclaim = \"delete\""},
			typeFlag,
			{Name: "force", Usage: "With -type host, delete the row alone of a volume whose node is gone"},
			pluginTimeout,
		},
		Run: volumeDelete,
		Examples: "berth volume delete data\n" +
			"berth volume delete -now data\n" +
			"berth volume delete -secret password=swordfish data\n" +
			"berth volume delete -type host cache",
	},
	undeleteCommand,
	labelCommand,
	{
		Name:     "retry",
		Args:     "<volume>",
		Synopsis: "Retry the failed operations of a volume at once",
		Help: `
Failed operations are retried with a growing delay. The status of the volume
shows the time of the next attempt. This command retries them at once, after
the cause is repaired: the creation, expansion and deletion of the volume, its
attach and detach, the growth of its content, its mounts for allocations that
wait, and its release by the nodes of ended allocations. It names them. An
allocation that has given up to mount the volume has failed: its job starts
another one.

A call for the volume that ended its plugin twice is not made any more. This
command allows it again. If it was the creation, create the volume again then.`,
		Acts:     true,
		Run:      volumeRetry,
		Examples: "berth volume retry data",
	},
	{
		Name:     "detach",
		Args:     "<volume> <node>",
		Synopsis: "Detach an unused volume from a node",
		Help: `
Running allocations on the node keep the volume: stop them first. The node is
called, and its answer explains a failure. If only the plugin's controller has
not detached yet, it is called again at once.

If the volume has neither a claim nor an attachment on the node, the plugin's
controller is called all the same: after a restore the volume may be attached
without a trace in the state. With -external the argument is the plugin's own
ID of the node, for a node that berth does not know.

With -force the claims are released although the node is down, and their
allocations count as lost. Use it only if the node is surely off, because a
running node may continue to write. It is rejected if the node answers and has
the volume mounted: repair or restart the plugin there, or power the node off.
If the node is down and does not answer, only the operator socket of the
server that leads takes it: the error prints the command to run there.
Without any claim, -force deletes an attachment whose detach the plugin does
not confirm: first verify in the storage system that the volume is detached.`,
		Acts: true,
		Flags: []command.Flag{
			{
				Name:  "force",
				Usage: "Assert that a node is down, or that a detach that the plugin does not confirm has happened",
			},
			{
				Name:  "reason",
				Kind:  command.String,
				Value: "text",
				Usage: "The reason; recorded. Required with -force",
			},
			{Name: "external", Usage: "The argument is the plugin's own ID of the node"},
		},
		Run: volumeDetach,
		Examples: "berth volume detach data n1\n" +
			`berth volume detach -force -reason "its power is off" data n1`,
	},
	{
		Name:     "claim",
		Synopsis: "Show and release claims on volumes",
		Sub:      claimCommands,
	},
	{
		Name:     "class",
		Synopsis: "Write, show and delete volume classes",
		Sub:      classCommands,
	},
	{
		Name:     "snapshot",
		Synopsis: "Take, show and delete snapshots of volumes",
		Sub:      SnapshotCommands,
	},
}

var pluginTimeout = command.Flag{
	Name:    "timeout",
	Kind:    command.Duration,
	Value:   "duration",
	Default: "5m",
	Usage:   "How long to wait for the plugin",
}

// readVolume reads and validates a volume file. locate adds positions in the file to the faults that a server
// finds.
func readVolume(c *command.Call, name string) (v *structs.CSIVolume, locate func(error) error, err error) {
	src, err := c.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	return parseVolume(c, name, src)
}

// parseVolume is readVolume for a file that is read.
func parseVolume(c *command.Call, name string, src []byte) (
	v *structs.CSIVolume, locate func(error) error, err error,
) {
	name = command.ShownName(name)
	sources := map[string][]byte{name: src}
	f, faults := jobspec.ReadVolume(name, src)
	if f != nil {
		f.Content.Namespace = cmp.Or(f.Content.Namespace, c.Namespace())
		f.Content.Canonicalize()
		faults = command.CheckContent(faults, validate.Volume(f.Content), f.Locate)
	}

	if faults != nil {
		return nil, nil, command.InFiles(sources, faults)
	}

	return f.Content, func(err error) error {
		return command.InFiles(sources, f.Locate(err))
	}, nil
}

// ReadFile reads and validates a volume file.
func ReadFile(c *command.Call, name string) (*structs.CSIVolume, error) {
	v, _, err := readVolume(c, name)
	return v, err
}

// volumeCreate waits until the plugin has made the volume, at most for -timeout: the servers go on
// afterwards. A fault of the file has its place in it.
func volumeCreate(ctx context.Context, c *command.Call) error {
	src, err := c.ReadFile(c.Arg(0))
	if err != nil {
		return err
	}
	if jobspec.IsHostVolume(command.ShownName(c.Arg(0)), src) {
		return createHostVolume(ctx, c, c.Arg(0), src)
	}
	if c.Bool("detach") {
		return command.BadUsage("-detach is for a dynamic host volume")
	}

	v, locate, err := parseVolume(c, c.Arg(0), src)
	if err != nil {
		return err
	}

	w := watch.New(c)
	w.WriteLine("Volume %q is requested from %s", v.ID, sourceOf(v))
	return locate(w.WithTimeout(ctx, func(ctx context.Context) error {
		return createVolume(ctx, w, v)
	}))
}

// sourceOf names the plugin or the class from which a volume is requested.
func sourceOf(v *structs.CSIVolume) string {
	switch {
	case v.Class != "":
		return fmt.Sprintf("volume class %q", v.Class)
	case v.PluginID != "":
		return fmt.Sprintf("plugin %q", v.PluginID)
	}
	return "the default volume class"
}

// createVolume creates or expands a volume and writes the reasons of a delay.
func createVolume(ctx context.Context, w *watch.Watch, v *structs.CSIVolume) error {
	var made *volumes.Written
	err := w.VolumeRequest(ctx, v.Namespace, v.ID, func() (err error) {
		made, err = volumes.Create(ctx, w.API, v)
		return err
	})
	if err != nil {
		return err
	}

	warnOfVolume(w, made)
	w.WriteLine("Volume %q is ready: %s", v.ID,
		show.JoinComma("external ID "+made.ExternalID, show.Size(made.Capacity)))
	switch {
	case made.Expands():
		w.WriteLine("It grows to %s when its plugin can be called: %s",
			show.Size(made.RequestedCapacityMin),
			structs.CommandLine(v.Namespace, "volume status", v.ID))
	case made.NodeExpandBytes > 0:
		w.WriteLine("Its content grows to %s at the next mount on a node",
			show.Size(made.NodeExpandBytes))
	}

	return w.Call.WriteOutcome(made.CSIVolume)
}

// warnOfVolume shows the warnings of the servers.
func warnOfVolume(w *watch.Watch, made *volumes.Written) {
	if made.Warnings != "" {
		w.WriteLine("Warning: %s", made.Warnings)
	}
}

// volumeRegister waits for the plugin, which confirms that the volume exists.
func volumeRegister(ctx context.Context, c *command.Call) error {
	v, locate, err := readVolume(c, c.Arg(0))
	if err != nil {
		return err
	}

	var made *volumes.Written
	w := watch.New(c)
	w.Waits.Step = "to see the volumes: " + structs.CommandLine(v.Namespace, "volume status")
	what := "the plugin, which confirms the volume"
	if v.PluginID != "" {
		what = fmt.Sprintf("plugin %q, which confirms the volume", v.PluginID)
	}
	err = w.AwaitAnswer(ctx, what, func() (err error) {
		made, err = volumes.Register(ctx, c.API, v)
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.WaitFor("volume", v.Namespace, v.ID)
		err = w.WithNextStep(ctx, err)
	}
	if err != nil {
		return locate(err)
	}

	warnOfVolume(w, made)
	return c.Report(made.CSIVolume, "Volume %q is registered: external ID %s",
		made.ID, made.ExternalID)
}

// volumeDelete waits until the plugin has deleted the volume, at most for -timeout. The servers go on
// afterwards.
func volumeDelete(ctx context.Context, c *command.Call) error {
	hosts, err := ofHosts(c)
	if err != nil {
		return err
	}
	if hosts {
		return deleteHostVolume(ctx, c)
	}
	if c.Bool("force") {
		return command.BadUsage("-force is for -type host; of another volume see volume deregister")
	}

	secrets, err := command.Pairs("secret", c.Strings("secret"))
	if err != nil {
		return err
	}

	id := c.Arg(0)
	seen, _, err := volumes.Get(ctx, c.API, id, nil)
	if structs.IsKind(err, structs.KindNotFound) {
		return c.DidYouMean(ctx, "volume", id, err)
	}
	on, err := c.On(seen, err)
	if err != nil {
		return err
	}

	w := watch.New(c)
	w.WriteLine("Volume %q is to be deleted", id)
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		err := w.VolumeRequest(ctx, "", id, func() error {
			return volumes.Delete(ctx, on, id, volumes.Deletion{Secrets: secrets, AtOnce: c.Bool("now")})
		})
		if err != nil {
			return c.DidYouMean(ctx, "volume", id, err)
		}

		v, _, err := volumes.Get(ctx, c.API, id, nil)
		if err == nil && v.Marked() {
			return reportMark(w, v)
		}

		w.WriteLine("Volume %q is deleted", id)
		return c.WriteOutcome(command.Changed{"VolumeID": id})
	})
}

// volumeDetach waits until the volume is detached, and says meanwhile what holds it up. With -force the
// claims are released although the node is down, so it needs a reason.
func volumeDetach(ctx context.Context, c *command.Call) error {
	if c.Bool("force") && c.String("reason") == "" {
		return command.BadUsage("-force needs a -reason")
	}

	node := c.Arg(1)
	if !c.Bool("external") {
		id, err := c.Resolve(ctx, "node", node)
		if err != nil {
			return err
		}

		node = id
	}

	o := volumes.DetachOptions{
		NodeID: node,
		Force:  c.Bool("force"),
		Reason: c.String("reason"),
		By:     command.UserAtHost(),
	}

	id := c.Arg(0)
	var resp *structs.CSIVolumeDetachResponse
	w := watch.New(c)
	on, err := onRelease(ctx, c, w, Release{Volume: id, NodeID: node}, &o.Shown)
	if err != nil {
		return err
	}
	w.WaitFor("volume", "", id)
	report := func(ctx context.Context) { w.ReportDetach(ctx, id, node) }
	err = w.Request(ctx, report, func() (err error) {
		resp, err = volumes.Detach(ctx, on, id, o)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return watch.VolumeFault(ctx, c, id, err)
	}
	if err != nil {
		return err
	}

	return c.Report(resp, "%s", show.OneLine(resp.Detail))
}
