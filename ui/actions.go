package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/api"
	"berth/api/reclaims"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/job"
	"berth/cli/node"
	"berth/cli/volume"
	"berth/structs"
	"berth/ui/views"
)

// actPath is the path of the page that confirms an action, and to which its form is sent.
const actPath = Root + "act"

// drainDeadline is that of a drain by the page, the default of the command line.
const drainDeadline = time.Hour

// target is the thing on which an action acts.
type target struct {
	namespace string
	id        string
	nodeID    string // of a detach
}

// action changes a thing as a command does. The page shows the words of the command before it acts.
type action struct {
	name    string // in addresses
	title   string // of the link and the button
	command *command.Command
	line    func(target) string // the command on the command line
	back    string              // the path of the view of the thing
	run     func(context.Context, *api.Client, target) error
}

// actions are the actions of the page.
var actions = []action{
	{
		name: "drain", title: "Drain", back: views.NodePath,
		command: command.Find(node.Commands, "drain"),
		line:    func(t target) string { return structs.CommandLine("", "node drain", "-enable", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.NodeDrain(ctx, t.id, api.NodeDrain{DrainSpec: &structs.DrainSpec{Deadline: drainDeadline}})
		},
	},
	{
		name: "undrain", title: "Cancel the drain", back: views.NodePath,
		command: command.Find(node.Commands, "drain"),
		line:    func(t target) string { return structs.CommandLine("", "node drain", "-disable", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.NodeDrain(ctx, t.id, api.NodeDrain{MarkEligible: true})
		},
	},
	{
		name: "ineligible", title: "Forbid placements", back: views.NodePath,
		command: command.Find(node.Commands, "eligibility"),
		line:    func(t target) string { return structs.CommandLine("", "node eligibility", "-disable", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.NodeEligibility(ctx, t.id, false)
		},
	},
	{
		name: "eligible", title: "Allow placements", back: views.NodePath,
		command: command.Find(node.Commands, "eligibility"),
		line:    func(t target) string { return structs.CommandLine("", "node eligibility", "-enable", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.NodeEligibility(ctx, t.id, true)
		},
	},
	{
		name: "stop-job", title: "Stop", back: views.JobPath,
		command: command.Find(job.Commands, "stop"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "job stop", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			_, err := c.JobDeregister(ctx, t.id, api.JobDeregisterOptions{})
			return err
		},
	},
	{
		name: "restart", title: "Restart the tasks", back: views.AllocPath,
		command: command.Find(alloc.Commands, "restart"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "alloc restart", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.AllocRestart(ctx, t.id, api.AllocRestartRequest{})
		},
	},
	{
		name: "stop-alloc", title: "Stop and replace", back: views.AllocPath,
		command: command.Find(alloc.Commands, "stop"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "alloc stop", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			_, err := c.AllocStop(ctx, t.id, api.AllocStopOptions{})
			return err
		},
	},
	{
		name: "detach", title: "Detach", back: views.VolumePath,
		command: command.Find(volume.Commands, "detach"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "volume detach", t.id, t.nodeID) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			_, err := c.VolumeDetach(ctx, t.id, api.VolumeDetachOptions{NodeID: t.nodeID})
			return err
		},
	},
	{
		name: "delete", title: "Delete with its data", back: views.VolumePath,
		command: command.Find(volume.Commands, "delete"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "volume delete", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return c.VolumeDelete(ctx, t.id, api.VolumeDeletion{})
		},
	},
	{
		name: "undelete", title: "Keep", back: views.VolumePath,
		command: command.Find(volume.Commands, "undelete"),
		line:    func(t target) string { return structs.CommandLine(t.namespace, "volume undelete", t.id) },
		run: func(ctx context.Context, c *api.Client, t target) error {
			return reclaims.Undelete(ctx, c, t.id)
		},
	},
}

// offer returns the link to the confirmation of an action.
func offer(name string, t target) link {
	for _, a := range actions {
		if a.name != name {
			continue
		}
		v := url.Values{"do": {name}, "id": {t.id}}
		title := a.title
		if t.namespace != "" {
			v.Set("namespace", t.namespace)
		}
		if t.nodeID != "" {
			v.Set("node", t.nodeID)
			title += " from node " + command.ShortID(t.nodeID)
		}
		return link{Name: title, To: actPath + "?" + v.Encode()}
	}
	panic("the page has no action " + name)
}

// confirmation is the data of the page that confirms an action.
type confirmation struct {
	Fault    string // of the action
	Do       string
	ID       string
	Space    string // the namespace
	Node     string
	Title    string // of the button
	Synopsis string // the words of the command
	Help     string
	Command  string // does the same on the command line
	Back     string // the path of the view of the thing
}

// readAction finds the action of a request, in its address or its form.
func readAction(value func(string) string) (*action, target, error) {
	t := target{
		namespace: structs.NamespaceOr(value("namespace")),
		id:        value("id"),
		nodeID:    value("node"),
	}
	for i, a := range actions {
		if a.name == value("do") && t.id != "" && len(t.id) <= structs.MaxName {
			return &actions[i], t, nil
		}
	}
	return nil, t, structs.Invalidf("the page has no action %q, or the address names no thing; follow a link "+
		"of a view", structs.Cut(value("do"), structs.MaxQuoted))
}

// actView is the frame of a confirmation.
var actView = view{name: "Confirm"}

// confirmAction shows the words of the command of an action, with a button that acts.
func (h *handler) confirmAction(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	a, t, err := readAction(c.param)
	if err != nil {
		c.render(http.StatusBadRequest, actView, &content{Template: "fault", Data: err.Error()})
		return
	}
	c.render(http.StatusOK, actView, a.confirmation(t, nil))
}

func (a *action) confirmation(t target, fault error) *content {
	data := confirmation{
		Do:       a.name,
		ID:       t.id,
		Space:    t.namespace,
		Node:     t.nodeID,
		Title:    a.title,
		Synopsis: a.command.Synopsis,
		Help:     strings.TrimSpace(a.command.Help),
		Command:  a.line(t),
		Back:     views.To(a.back, t.namespace, t.id),
	}
	if fault != nil {
		data.Fault = fault.Error()
	}
	return &content{Template: "act", Title: a.title + ": " + command.OneLine(t.id), Data: data}
}

// act acts, with the rights of the caller, and leads back to the view of the thing.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	a, t, err := readAction(r.PostFormValue)
	if err != nil {
		c.render(http.StatusBadRequest, actView, &content{Template: "fault", Data: err.Error()})
		return
	}

	ctx, cancel := c.ctx()
	defer cancel()
	err = a.run(ctx, c.client(t.namespace), t)
	if err != nil {
		c.render(structs.KindOf(err).HTTPStatus(), actView, a.confirmation(t, err))
		return
	}
	http.Redirect(w, r, views.To(a.back, t.namespace, t.id), http.StatusSeeOther)
}

// nodeActions are those of a node in its state.
func nodeActions(n *structs.Node) []link {
	t := target{id: n.ID}
	if n.Drain {
		return []link{offer("undrain", t)}
	}
	if n.SchedulingEligibility == structs.NodeEligible {
		return []link{offer("drain", t), offer("ineligible", t)}
	}
	return []link{offer("drain", t), offer("eligible", t)}
}

// volumeActions are those of a volume in its state. It may be detached from each node with a claim or an
// attachment, the first of them.
func volumeActions(v *structs.CSIVolumeDetail) (links []link) {
	t := target{namespace: v.Namespace, id: v.ID}
	offered := map[string]bool{}
	detach := func(nodeID string) {
		if nodeID != "" && !offered[nodeID] && len(offered) < mostNodes {
			offered[nodeID] = true
			links = append(links, offer("detach", target{v.Namespace, v.ID, nodeID}))
		}
	}
	for _, c := range v.Claims {
		detach(c.NodeID)
	}
	for _, a := range v.Attachments {
		detach(a.NodeID)
	}
	if v.Marked() {
		return append(links, offer("undelete", t))
	}
	return append(links, offer("delete", t))
}
