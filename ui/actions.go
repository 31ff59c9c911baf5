package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"berth/api/show"
	"berth/structs"
	"berth/ui/actions"
	"berth/ui/pages"
	"berth/ui/views"
)

// actPath is the path of the page that confirms an action, and to which its form is sent.
const actPath = Root + "act"

// offer returns the link to the confirmation of an action. The page shows the view with the path from after
// the action, "" for the thing's.
func offer(name string, t actions.Target, from string) pages.Link {
	a := actions.Find(name)
	if a == nil {
		panic("the page has no action " + name)
	}
	v := url.Values{"do": {name}, "id": {t.ID}}
	title := a.Title
	if t.Namespace != "" {
		v.Set("namespace", t.Namespace)
	}
	if t.NodeID != "" {
		v.Set("node", t.NodeID)
		title += " from node " + show.ShortID(t.NodeID)
	}
	if t.Created != 0 {
		v.Set("created", strconv.FormatUint(t.Created, 10))
	}
	if from != "" {
		v.Set("from", from)
	}
	return pages.Link{Name: title, To: actPath + "?" + v.Encode()}
}

// seen returns a target with the row that a view shows.
func seen(t actions.Target, created uint64) actions.Target {
	t.Created = created
	return t
}

// order is an action on a thing, as a request names it.
type order struct {
	*actions.Action
	target actions.Target
	from   string // the path of the view that is shown next, "" for that of the thing
}

// readOrder finds the action of a request, in its address or its form.
func (c *call) readOrder(value func(string) string) (*order, error) {
	epoch, err := strconv.ParseUint(cmp.Or(value("epoch"), "0"), 10, 64)
	created, badCreated := strconv.ParseUint(cmp.Or(value("created"), "0"), 10, 64)
	o := &order{
		Action: actions.Find(value("do")),
		target: actions.Target{
			Namespace: structs.NamespaceOr(value("namespace")),
			ID:        value("id"),
			NodeID:    value("node"),
			Reason:    strings.TrimSpace(cmp.Or(value("words"), value("reason"))),
			By:        "the page of agent " + c.Agent + ", from " + c.r.RemoteAddr,
			Created:   created,
			Epoch:     epoch,
			Allocs:    strings.Fields(value("allocs")),
		},
	}
	if value("from") != "" {
		o.from = ownPath(value("from"))
	}
	unseen := o.Action != nil && o.Destroys && created == 0
	if o.Action == nil || o.target.ID == "" || len(o.target.ID) > structs.MaxName || unseen ||
		cmp.Or(err, badCreated) != nil {
		return nil, structs.Invalidf("the page has no action %q, or the address names no thing; follow a link of a view", structs.Cut(value("do"), structs.MaxQuoted))
	}
	return o, nil
}

// next returns the path of the view that is shown next.
func (o *order) next() string {
	if o.Gone && o.from == "" {
		return Root
	}
	return cmp.Or(o.from, views.To(o.Back, o.target.Namespace, o.target.ID))
}

// actView is the frame of a confirmation.
var actView = view{name: "Confirm"}

// confirmAction shows the words of the command of an action, with a button that acts.
func (h *handler) confirmAction(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	o, err := c.readOrder(c.param)
	if err != nil {
		c.render(http.StatusBadRequest, actView, contentOf("", pages.Fault(err.Error())))
		return
	}
	c.confirm(o, nil)
}

// confirm shows the confirmation of an action, again after a fault of it. It reads the claims of a lost node
// each time.
func (c *call) confirm(o *order, fault error) {
	data := pages.Confirmation{
		Do:       o.Name,
		ID:       o.target.ID,
		Space:    o.target.Namespace,
		Node:     o.target.NodeID,
		Title:    o.Title,
		Synopsis: o.Command.Synopsis,
		Help:     strings.TrimSpace(o.Command.Help),
		Command:  o.Line(o.target),
		Reasons:  o.Reasons,
		Created:  o.target.Created,
		From:     o.from,
		Back:     cmp.Or(o.from, views.To(o.Back, o.target.Namespace, o.target.ID)),
	}
	if o.Notes != nil {
		ctx, cancel := c.ctx()
		defer cancel()
		shown, err := o.Notes(ctx, c.client(o.target.Namespace), o.target)
		if shown != nil {
			data.Notes = shown.Notes
			data.Epoch = shown.Epoch
			data.Allocs = strings.Join(shown.Allocs, " ")
		}
		fault = cmp.Or(fault, err)
	}
	status := http.StatusOK
	if fault != nil {
		data.Fault = fault.Error() + socketStep(fault, data.Command)
		status = structs.KindOf(fault).HTTPStatus()
	}
	title := o.Title + ": " + show.OneLine(o.target.ID)
	c.render(status, actView, contentOf(title, pages.Confirm(data)))
}

// socketStep says how to do what only the operator socket of the leader takes, "" for all else. The page is
// on that socket, too.
func socketStep(err error, line string) string {
	socket := structs.SocketOf(err)
	if socket == "" {
		return ""
	}
	return fmt.Sprintf("\nAs root on that server: BERTH_ADDR=%s %s\nOr with this page over its socket: "+
		"ssh -L 4747:%s root@SERVER, and then http://127.0.0.1:4747%s\nEnd ssh afterwards: meanwhile each program "+
		"of your machine acts as root of the cluster",
		structs.ShellWord("unix://"+socket), line, socket, Root)
}

// act acts, with the rights of the caller, and leads back to the view of the thing.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	o, err := c.readOrder(r.PostFormValue)
	if err != nil {
		c.render(http.StatusBadRequest, actView, contentOf("", pages.Fault(err.Error())))
		return
	}
	if len(o.Reasons) > 0 && o.target.Reason == "" {
		c.confirm(o, structs.Invalidf("a reason is needed: how do you know it? Choose one, or use your own words"))
		return
	}

	ctx, cancel := c.ctx()
	defer cancel()
	err = o.Run(ctx, c.client(o.target.Namespace), o.target)
	if err != nil {
		c.confirm(o, err)
		return
	}
	http.Redirect(w, r, o.next(), http.StatusSeeOther)
}

// lossActions are those by which a node that is down loses its volumes. The servers reject a fence for which
// they have no device. The page shows the view with the path from after them.
func lossActions(nodeID string, fenceable bool, from string) []pages.Link {
	t := actions.Target{ID: nodeID}
	links := []pages.Link{offer("confirm-lost", t, from)}
	if fenceable {
		links = append(links, offer("fence", t, from))
	}
	return links
}

// nodeActions are the actions of a node in its state. fenceable says that a device of the servers fences it.
func nodeActions(n *structs.Node, fenceable bool) (links []pages.Link) {
	t := actions.Target{ID: n.ID}
	if n.Status == structs.NodeDown {
		links = append(lossActions(n.ID, fenceable, ""), offer("purge", seen(t, n.CreateIndex), ""))
	}
	if n.Drain {
		return append(links, offer("undrain", t, ""))
	}
	if n.SchedulingEligibility == structs.NodeEligible {
		return append(links, offer("drain", t, ""), offer("ineligible", t, ""))
	}
	return append(links, offer("drain", t, ""), offer("eligible", t, ""))
}

// jobActions are the actions of a job in its state.
func jobActions(j *structs.Job, namespace string) []pages.Link {
	if j.Stop {
		return nil
	}
	t := actions.Target{Namespace: namespace, ID: j.ID}
	return []pages.Link{
		offer("stop-job", seen(t, j.CreateIndex), ""),
		offer("eval", t, ""),
		offer("reschedule", t, ""),
	}
}

// volumeActions are the actions of a volume in its state. It may be detached from each node with a claim or
// an attachment, the first of them. A word about a node that is down leads back to the volume.
func volumeActions(v *structs.CSIVolumeDetail, nodes nodeFacts) (links []pages.Link) {
	t := actions.Target{Namespace: v.Namespace, ID: v.ID}
	offered := map[string]bool{}
	detach := func(nodeID string) {
		if nodeID == "" || offered[nodeID] || len(offered) == mostNodes {
			return
		}
		offered[nodeID] = true
		if nodes.states[nodeID] == structs.NodeDown {
			own := views.To(views.VolumePath, v.Namespace, v.ID)
			for _, l := range lossActions(nodeID, nodes.fenceable[nodeID], own) {
				l.Name += ", node " + show.ShortID(nodeID)
				links = append(links, l)
			}
		}
		of := actions.Target{Namespace: v.Namespace, ID: v.ID, NodeID: nodeID}
		links = append(links, offer("detach", of, ""))
	}
	for _, c := range v.Claims {
		detach(c.NodeID)
	}
	for _, a := range v.Attachments {
		detach(a.NodeID)
		if a.State == structs.AttachmentDetaching && a.NodeID != "" {
			of := actions.Target{Namespace: v.Namespace, ID: v.ID, NodeID: a.NodeID}
			links = append(links, offer("force-detach", seen(of, v.CreateIndex), ""))
		}
	}
	links = append(links, offer("retry", t, ""))
	if v.Marked() {
		return append(links, offer("undelete", t, ""))
	}
	return append(links, offer("delete", seen(t, v.CreateIndex), ""))
}
