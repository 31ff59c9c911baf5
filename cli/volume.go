package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"berth/api"
	"berth/jobspec"
	"berth/structs"
)

// volumeCommands are the verbs of berth volume.
func volumeCommands() []Command {
	return []Command{
		{Name: "init", Args: "[file]", Synopsis: "Write an example of a volume file (volume.hcl)",
			Local: true, Run: volumeInit,
			Examples: []string{"berth volume init", "berth volume init data.hcl"}},
		{Name: "create", Acts: true, Args: "<file>", Synopsis: "Have a plugin make a volume",
			Flags: volumeCreateFlags, Run: volumeCreate,
			Examples: []string{"berth volume create data.hcl"}},
		{Name: "register", Acts: true, Args: "<file>",
			Synopsis: "Make known a volume that its plugin has already", Run: volumeRegister,
			Examples: []string{"berth volume register data.hcl"}},
		{Name: "status", Args: "[volume]",
			Synopsis: "List volumes, or show one with its claims and attachments",
			Flags:    volumeStatusFlags, Renders: true, Run: volumeStatus,
			Examples: []string{
				"berth volume status", "berth volume status data", "berth volume status -node n1",
			}},
		{Name: "deregister", Acts: true, Args: "<volume>",
			Synopsis: "Forget a volume, leaving it at its plugin", Flags: volumeDeregisterFlags,
			Run:      volumeDeregister,
			Examples: []string{"berth volume deregister data", "berth volume deregister -force data"}},
		{Name: "delete", Acts: true, Args: "<volume>",
			Synopsis: "Have the plugin delete a volume, with all that is on it",
			Flags:    volumeDeleteFlags, Run: volumeDelete,
			Examples: []string{
				"berth volume delete data", "berth volume delete -secret password=swordfish data",
			}},
		{Name: "retry", Acts: true, Args: "<volume>",
			Synopsis: "Try at once again what failed for a volume", Help: helpVolumeRetry,
			Run:      volumeRetry,
			Examples: []string{"berth volume retry data"}},
		{Name: "detach", Acts: true, Args: "<volume> <node>",
			Synopsis: "Have a node let go of a volume that nothing there uses any more",
			Help:     helpVolumeDetach, Flags: volumeDetachFlags, Run: volumeDetach,
			Examples: []string{
				"berth volume detach data n1",
				`berth volume detach -force -reason "its power is off" data n1`,
			}},
	}
}

const helpVolumeDetach = `
Allocations on the node that still run keep the volume: stop them first. The
node is asked, and its answer says why when it does not let go. Where only the
plugin's controller has still to detach, it is asked again at once.

Without a claim and an attachment on the node the plugin's controller is asked
to detach the volume: after a restore it may be attached where no row says so.
A node that berth does not know is named by the plugin's own ID of it.

With -force the claims are released although the node is down, and their
allocations are given up. Do so only when the node is surely off:
one that still runs may go on writing. A node that answers and has the volume
mounted is not overruled: mend or restart the plugin there, or power it off.
Without any claim, -force forgets an attachment whose detach the plugin does
not confirm: make sure first that the storage itself shows it detached.`

const helpVolumeRetry = `
What fails is tried again by itself, at growing distances; the status of the
volume says when. Once the cause is mended this has the plugin asked at once:
to create, expand or delete the volume, to attach or detach it, and to grow
what is on it.`

var (
	volumeCreateFlags = []Flag{{Name: "timeout", Kind: Duration, Value: "duration", Default: "5m",
		Usage: "How long to wait for the plugin"}}
	volumeStatusFlags = []Flag{
		{Name: "verbose", Kind: Bool,
			Usage: "Also list the volumes that plugins know, those of others included"},
		{Name: "plugin", Kind: String, Value: "id", Usage: "List the volumes of one plugin"},
		{Name: "node", Kind: String, Value: "id", Usage: "List the volumes in use on one node"},
	}
	volumeDeregisterFlags = []Flag{{
		Name:  "force",
		Kind:  Bool,
		Usage: "Also when claims are waiting, or it is still being detached",
	}}
	volumeDeleteFlags = []Flag{
		{Name: "secret", Kind: Strings, Value: "key=value",
			Usage: "A secret for the plugin; may be given more than once"},
		{Name: "timeout", Kind: Duration, Value: "duration", Default: "5m",
			Usage: "How long to wait for the plugin"},
	}
	volumeDetachFlags = []Flag{
		{Name: "force", Kind: Bool,
			Usage: "Vouch for a node that is down, or for a detach that the plugin does not confirm"},
		{Name: "reason", Kind: String, Value: "text", Usage: "Why; kept in the log. Needed with -force"},
		{Name: "external", Kind: Bool, Usage: "The node is given by the ID that the plugin has for it"},
	}
)

// readVolume reads a volume file. locate gives faults that the server finds their positions in the file.
func (c *Call) readVolume(name string) (v *structs.CSIVolume, locate func(error) error, err error) {
	src, err := c.readFile(name)
	if err != nil {
		return nil, nil, err
	}
	v, err = jobspec.ParseVolume(shownName(name), src)
	if err != nil {
		return nil, nil, excerpt(shownName(name), src, err)
	}
	if ns := orEnv(c.String("namespace"), "BERTH_NAMESPACE"); v.Namespace == "" && ns != "" {
		v.Namespace = ns
	}
	return v, func(err error) error {
		return excerpt(shownName(name), src, jobspec.Locate(shownName(name), src, err))
	}, nil
}

func volumeCreate(ctx context.Context, c *Call) error {
	v, locate, err := c.readVolume(c.Arg(0))
	if err != nil {
		return err
	}
	w := newWatch(c)
	w.say("Volume %q is asked of plugin %q", v.ID, v.PluginID)
	return locate(w.until(ctx, func(ctx context.Context) error { return w.create(ctx, v) }))
}

// create has a volume made or expanded and says meanwhile why that is not done yet.
func (w *watch) create(ctx context.Context, v *structs.CSIVolume) error {
	var made *structs.CSIVolume
	err := w.meanwhile(ctx, v.Namespace, v.ID, func() (err error) {
		made, err = w.api.VolumeCreate(ctx, v)
		return err
	})
	if err != nil {
		return err
	}
	w.say("Volume %q is ready: %s", v.ID,
		joinComma([]string{"external ID " + made.ExternalID, size(made.Capacity)}))
	switch {
	case made.ExpandPending:
		w.say("It grows to %s as soon as its plugin may be asked: berth volume status %s",
			size(made.RequestedCapacityMin), v.ID)
	case made.NodeExpandBytes > 0:
		w.say("What is on it grows to %s when a node mounts it next", size(made.NodeExpandBytes))
	}
	return w.c.answered(made)
}

// firstLook is how soon a request about a volume is said to wait. Most are answered before.
const firstLook = 500 * time.Millisecond

// meanwhile waits for a request about a volume and says why the request is not answered yet.
func (w *watch) meanwhile(ctx context.Context, ns, id string, ask func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- ask() }()
	look := time.NewTimer(firstLook)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			w.progress(ctx, ns, id)
			look.Reset(lookEvery)
		}
	}
}

// progress says how far a change of a volume is. Without an answer it says nothing: the request itself tells
// how the change ends.
func (w *watch) progress(ctx context.Context, ns, id string) {
	d, _, err := w.api.Volume(ctx, id, &api.Query{Namespace: ns})
	if err != nil {
		return
	}
	why := joinComma([]string{problem(d.LastError), blocked(d), growth(d)})
	switch {
	case why == "":
		why = "waits for the plugin's answer"
	case d.State == structs.VolumeDeleting:
		why += "; to forget it without asking the plugin: berth volume deregister -force " + id
	}
	w.note("volume", "Volume %q is %s: %s", id, doing(d), why)
}

// doing says what is under way with a volume. One that has still to grow is ready only for who is content
// with its present size.
func doing(v *structs.CSIVolumeDetail) string {
	if v.State == structs.VolumeReady && (v.ExpandPending || v.NodeExpandBytes > 0) {
		return "being expanded"
	}
	return v.State
}

func joinComma(parts []string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ", ")
}

func volumeRegister(ctx context.Context, c *Call) error {
	v, locate, err := c.readVolume(c.Arg(0))
	if err != nil {
		return err
	}
	made, err := c.API().VolumeRegister(ctx, v)
	if err != nil {
		return locate(err)
	}
	c.Printf("Volume %q is registered: external ID %s\n", made.ID, made.ExternalID)
	return c.answered(made)
}

func volumeDeregister(ctx context.Context, c *Call) error {
	if err := c.API().VolumeDeregister(ctx, c.Arg(0), c.Bool("force")); err != nil {
		return c.didYouMean(ctx, "volume", c.Arg(0), err)
	}
	c.Printf("Volume %q is forgotten\n", c.Arg(0))
	return c.answered(map[string]string{"VolumeID": c.Arg(0)})
}

func volumeDelete(ctx context.Context, c *Call) error {
	secrets, err := parseSecrets(c.Strings("secret"))
	if err != nil {
		return err
	}
	id, w := c.Arg(0), newWatch(c)
	w.say("Volume %q is to be deleted", id)
	return w.until(ctx, func(ctx context.Context) error {
		if err := w.meanwhile(ctx, "", id,
			func() error { return c.API().VolumeDelete(ctx, id, secrets) }); err != nil {
			return c.didYouMean(ctx, "volume", id, err)
		}
		w.say("Volume %q is deleted", id)
		return c.answered(map[string]string{"VolumeID": id})
	})
}

func parseSecrets(pairs []string) (structs.Secrets, error) {
	secrets := structs.Secrets{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, badUsage("a -secret is not of the form key=value")
		}
		secrets[k] = v
	}
	return secrets, nil
}

func volumeRetry(ctx context.Context, c *Call) error {
	if err := c.API().VolumeRetry(ctx, c.Arg(0)); err != nil {
		return c.didYouMean(ctx, "volume", c.Arg(0), err)
	}
	c.Printf("What failed for volume %q is tried again: berth volume status %s\n", c.Arg(0), c.Arg(0))
	return c.answered(map[string]string{"VolumeID": c.Arg(0)})
}

func volumeDetach(ctx context.Context, c *Call) error {
	if c.Bool("force") && c.String("reason") == "" {
		return badUsage("-force needs a -reason")
	}
	node := c.Arg(1)
	if !c.Bool("external") {
		id, err := c.nodeID(ctx, node)
		if err != nil {
			return err
		}
		node = id
	}
	o := api.VolumeDetachOptions{NodeID: node, Force: c.Bool("force"), Reason: c.String("reason"),
		By: whoAmI()}
	resp, err := c.API().VolumeDetach(ctx, c.Arg(0), o)
	if err != nil {
		return c.didYouMean(ctx, "volume", c.Arg(0), err)
	}
	c.Printf("%s\n", oneLine(resp.Detail))
	return c.answered(resp)
}

// whoAmI names the person at the terminal, as the system does.
func whoAmI() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || name == "" {
		return name
	}
	return name + "@" + host
}

func volumeStatus(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" {
		return volumeListing(ctx, c)
	}
	if c.Given("plugin") || c.Given("node") {
		return badUsage("-plugin and -node choose among all volumes; name a volume or give them, not both")
	}
	return lookup[structs.CSIVolumeDetail]{c.volumeID, c.API().Volume, printVolume}.show(ctx, c)
}

func volumeListing(ctx context.Context, c *Call) error {
	filter := api.VolumeFilter{PluginID: c.String("plugin")}
	if c.Given("node") {
		id, err := c.nodeID(ctx, c.String("node"))
		if err != nil {
			return err
		}
		filter.NodeID = id
	}
	vols, _, err := c.API().Volumes(ctx, filter, nil)
	if err != nil {
		return err
	}
	if c.Bool("verbose") {
		return c.externalListing(ctx, filter, vols)
	}
	return volumeSheet.list(c, "volumes", vols)
}

var volumeSheet = sheet[*structs.CSIVolumeListStub]{
	titles: []string{
		"ID",
		"Name",
		"Plugin",
		"State",
		"Schedulable",
		"Access Mode",
		"Readers",
		"Writers",
		"Waiting",
	},
	row: func(v *structs.CSIVolumeListStub) []string {
		name := v.Name
		if name == v.ID { // most have no other one, and then the column is left out
			name = ""
		}
		return []string{
			v.ID, name, v.PluginID, v.State, yesNo(v.Schedulable), string(v.AccessMode),
			fmt.Sprint(v.CurrentReaders), fmt.Sprint(v.CurrentWriters), fmt.Sprint(v.Waiting),
		}
	},
}

var attachmentSheet = sheet[*structs.CSIAttachment]{
	titles: []string{"Node", "State", "Read Only", "Changed", "Last Error"},
	row: func(a *structs.CSIAttachment) []string {
		return []string{structs.ShortID(a.NodeID), a.State, yesNo(a.ReadOnly), age(a.ModifyTime),
			joinComma([]string{problem(a.LastError), underway(a.Call)})}
	},
}

var claimSheet = sheet[*structs.CSIClaim]{
	titles: []string{"Allocation", "Job", "Node", "Mode", "Access Mode", "State", "Since", "Waits For"},
	row: func(c *structs.CSIClaim) []string {
		return []string{
			structs.ShortID(c.AllocID), c.JobID, structs.ShortID(c.NodeID), c.Mode, string(c.AccessMode),
			c.State, age(c.CreateTime), c.Reason,
		}
	},
}

func printVolume(_ context.Context, c *Call, v *structs.CSIVolumeDetail) error {
	c.pairs(
		[2]string{"ID", v.ID},
		[2]string{"Name", v.Name},
		[2]string{"Namespace", v.Namespace},
		[2]string{"External ID", v.ExternalID},
		[2]string{"Plugin", v.PluginID},
		[2]string{"Provider", joinComma([]string{v.Provider, v.ProviderVersion})},
		[2]string{"State", v.State},
		[2]string{"Last error", problem(v.LastError)},
		[2]string{"Under way", underway(v.Call)},
		[2]string{"Capacity", size(v.Capacity)},
		[2]string{"Grows to", growth(v)},
		[2]string{"Schedulable", yesNo(v.Schedulable)},
		[2]string{"Blocked", blocked(v)},
		[2]string{
			"Controllers healthy",
			controllers(v.ControllerRequired, v.ControllersHealthy, v.ControllersExpected),
		},
		[2]string{"Nodes healthy", count(v.NodesHealthy, v.NodesExpected)},
		[2]string{"Access mode", string(v.AccessMode)},
		[2]string{"Attachment mode", string(v.AttachmentMode)},
		[2]string{"Made for", madeFor(v.RequestedCapabilities)},
		[2]string{"Mount options", mountOptions(v.MountOptions)},
		[2]string{"Reachable from", topologies(v.Topologies)},
		[2]string{"Created", at(v.CreateTime)},
		[2]string{"Modified", at(v.ModifyTime)},
		[2]string{"Turned read-only", turnedReadOnly(v.TurnedReadOnly)},
		[2]string{"Forced", forcedLast(v.Forced)},
	)
	if len(v.WaitingJobs) > 0 {
		c.Printf("\nJobs that wait for it without an allocation: %s; berth job status JOB says why\n",
			joinComma(v.WaitingJobs))
	}
	for _, text := range v.Warnings {
		c.Printf("\nWarning: %s\n", oneLine(text))
	}
	claimSheet.section(c, "Claims", v.Claims)
	attachmentSheet.section(c, "Attachments", v.Attachments)
	return nil
}

// blocked says why a volume is not schedulable, without the state and the error that are shown beside it.
func blocked(v *structs.CSIVolumeDetail) string {
	if v.LastError != nil {
		switch v.State {
		case structs.VolumeCreating, structs.VolumeDeleting:
			return ""
		case structs.VolumeFailed:
			return "correct it and create it again, or delete it"
		}
	}
	return v.Blocked
}

// underway names a controller call whose outcome is not known.
func underway(call *structs.CSICall) string {
	if call == nil {
		return ""
	}
	return fmt.Sprintf("node %s was asked to %s %s and has not said what came of it",
		structs.ShortID(call.NodeID), call.Op, age(call.Time))
}

func turnedReadOnly(t *structs.CSITurnedReadOnly) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("on node %s, under allocation %s, which let go of it %s", structs.ShortID(t.NodeID),
		structs.ShortID(t.AllocID), age(t.Time))
}

func forcedLast(f *structs.CSIForced) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s, node %s, by %s %s: %s", f.What, structs.ShortID(f.NodeID), f.By, age(f.Time),
		oneLine(f.Reason))
}

func madeFor(caps []*structs.CSIVolumeCapability) string {
	var parts []string
	for _, p := range caps {
		parts = append(parts, fmt.Sprintf("%s/%s", p.AccessMode, p.AttachmentMode))
	}
	return joinComma(parts)
}

func mountOptions(o *structs.CSIMountOptions) string {
	if o == nil {
		return ""
	}
	flags := strings.Join(o.MountFlags, ",")
	if flags != "" {
		flags = "flags " + flags
	}
	return joinComma([]string{o.FSType, flags})
}

func topologies(ts []*structs.CSITopology) string {
	var parts []string
	for _, t := range ts {
		if t != nil { // an older server let it in
			parts = append(parts, keyValues(t.Segments))
		}
	}
	return strings.Join(parts, " or ")
}
