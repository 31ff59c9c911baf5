package views

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/api/show"
	"berth/structs"
	"berth/structs/storage"
)

// StepState says how far a step of a claim is.
type StepState string

// The states of a step.
const (
	Done    StepState = "done"
	Waits   StepState = "waits"   // the chain goes on when this step is done
	Later   StepState = "later"   // an earlier step waits
	Skipped StepState = "skipped" // the plugin has no such step
	Unknown StepState = "unknown" // the node did not tell
)

// Step is one station on the way from a claim to its tasks.
type Step struct {
	Name  string // Claim, Attachment, Node, Stage, Mount or Tasks
	Text  string // how far it is, in words
	State StepState
	Link  string // a path of the page, "" for none
}

// Chain is one claim with its steps in their order.
type Chain struct {
	Place    int // in the order of the claims, from 1
	AllocID  string
	Alloc    string // its short ID
	AllocTo  string
	JobID    string
	JobTo    string
	Mode     string
	Released bool // the allocation has ended, and the steps are undone from the last one
	Steps    []Step
}

// Picture is a volume with all that uses it.
type Picture struct {
	Volume    *structs.CSIVolumeDetail
	Chains    []Chain
	Placing   []Step // jobs that wait for the volume without an allocation
	Detaching []Step // attachments without a claim
	Usages    []Usage
	Snapshots Table
	Problems  []string // findings about the volume
}

// Usage is the space of a volume on a node. Percent is from 0 to 100, and 0 if Text says that it is not
// known.
type Usage struct {
	Node    string
	NodeTo  string
	Percent int
	Text    string
	Tone    Tone
}

// VolumeFacts are the answers of the API about one volume. Usage and Snapshots may be nil, and Nodes may lack
// nodes: they are then shown as not known.
type VolumeFacts struct {
	Volume    *structs.CSIVolumeDetail
	Usage     *storage.VolumeUsageResponse
	Snapshots []*storage.VolumeSnapshot
	Nodes     map[string]string // status by ID
}

// NewPicture makes the picture of a volume.
func NewPicture(f VolumeFacts) *Picture {
	v := f.Volume
	p := &Picture{
		Volume:    v,
		Usages:    usagesOf(f.Usage),
		Snapshots: snapshotTable(f.Snapshots),
		Problems:  slices.Clone(v.Warnings),
	}
	if v.LastError != nil {
		p.Problems = append(p.Problems, show.ProblemText(v.LastError))
	}
	p.Problems = append(p.Problems, conditions(f.Usage)...)

	claimed := map[string]bool{}
	for i, c := range v.Claims {
		claimed[c.NodeID] = true
		p.Chains = append(p.Chains, f.chain(i+1, c))
	}
	for _, job := range v.WaitingJobs {
		p.Placing = append(p.Placing, Step{
			Name:  "Placement",
			Text:  "job " + job + " waits for a place",
			State: Waits,
			Link:  To(JobPath, v.Namespace, job),
		})
	}
	for _, a := range v.Attachments {
		if !claimed[a.NodeID] {
			p.Detaching = append(p.Detaching, f.attachment(a))
		}
	}
	return p
}

// conditions are the adverse conditions that a plugin reports, of its controllers and of its nodes.
func conditions(all *storage.VolumeUsageResponse) (lines []string) {
	if all == nil {
		return nil
	}
	for _, h := range all.Health {
		if h.Condition != nil && h.Condition.Abnormal {
			lines = append(lines, "the controllers of its plugin report it as abnormal since "+
				show.Age(h.Since)+reason(h.Condition.Message))
		}
	}
	for _, u := range all.Usages {
		if u.Condition != nil && u.Condition.Abnormal {
			lines = append(lines, "the plugin reports it as abnormal on node "+show.ShortID(u.NodeID)+
				reason(u.Condition.Message))
		}
	}
	return lines
}

// chain makes the chain of a claim. The first step that is not done waits, and the others come later.
func (f VolumeFacts) chain(place int, c *structs.CSIClaim) Chain {
	chain := Chain{
		Place:    place,
		AllocID:  c.AllocID,
		Alloc:    show.ShortID(c.AllocID),
		AllocTo:  To(AllocPath, c.Namespace, c.AllocID),
		JobID:    c.JobID,
		JobTo:    To(JobPath, c.Namespace, c.JobID),
		Mode:     c.Mode,
		Released: c.EndTime != 0,
		Steps: []Step{
			claimStep(c),
			f.attachmentStep(c),
			f.nodeStep(c),
			f.stageStep(c),
			f.mountStep(c),
			f.tasksStep(c),
		},
	}
	if chain.Released {
		markRelease(chain.Steps, c)
		return chain
	}

	waits := false
	for i := range chain.Steps {
		s := &chain.Steps[i]
		switch {
		case waits && s.State == Waits:
			s.State = Later
		case waits && s.State == Unknown:
			s.State = Later
			s.Text = "comes later"
		}
		waits = waits || s.State == Waits
	}
	return chain
}

// markRelease marks the step that is undone now: the mount, which the node has not reported as gone. One that
// is down does not report.
func markRelease(steps []Step, c *structs.CSIClaim) {
	missing := "the node has not released it yet"
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Name == "Node" && s.State == Waits:
			s.State = Unknown
			missing = "node " + s.Text + " and has not released it"
		case s.Name == "Mount":
			s.State = Waits
			s.Text = "its allocation ended " + show.Age(c.EndTime) + "; " + missing
			if c.ReleaseError != nil {
				s.Text += ": " + show.ProblemText(c.ReleaseError)
			}
		case s.State == Waits:
			s.State = Done
		}
	}
}

func claimStep(c *structs.CSIClaim) Step {
	if c.State == structs.ClaimGranted {
		return Step{Name: "Claim", Text: "granted " + show.Age(c.GrantTime), State: Done}
	}
	return Step{
		Name:  "Claim",
		Text:  "waits since " + show.Age(c.CreateTime) + reason(c.Reason),
		State: Waits,
	}
}

// reason returns a reason as the rest of a sentence.
func reason(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// attachmentTones are the tones of the states of an attachment.
var attachmentTones = map[string]StepState{
	structs.AttachmentAttached:  Done,
	structs.AttachmentAttaching: Waits,
}

func (f VolumeFacts) attachmentStep(c *structs.CSIClaim) Step {
	for _, a := range f.Volume.Attachments {
		if a.NodeID == c.NodeID {
			return f.attachment(a)
		}
	}
	// The log entry of a grant makes the attachment of a plugin that attaches volumes.
	if c.State == structs.ClaimGranted || !f.Volume.ControllerRequired {
		return Step{Name: "Attachment", Text: "the plugin attaches nothing", State: Skipped}
	}
	return Step{Name: "Attachment", Text: "follows the grant", State: Waits}
}

// attachment shows one attachment, with the call that is in flight and the last fault.
func (f VolumeFacts) attachment(a *structs.CSIAttachment) Step {
	words := a.State + " " + show.Age(a.ModifyTime)
	if a.LastError != nil {
		words += reason(show.ProblemText(a.LastError))
	}
	if a.Call != nil {
		words += fmt.Sprintf("; node %s was called to %s it %s and has not reported the outcome",
			show.ShortID(a.Call.NodeID), a.Call.Op, show.Age(a.Call.Time))
	}
	return Step{
		Name:  "Attachment",
		Text:  words,
		State: cmp.Or(attachmentTones[a.State], Waits),
		Link:  To(NodePath, "", a.NodeID),
	}
}

func (f VolumeFacts) nodeStep(c *structs.CSIClaim) Step {
	s := Step{
		Name:  "Node",
		Text:  cmp.Or(f.nodeName(c.AllocID), show.ShortID(c.NodeID)),
		State: Unknown,
		Link:  To(NodePath, "", c.NodeID),
	}
	switch status := f.Nodes[c.NodeID]; status {
	case "":
	case structs.NodeReady:
		s.State = Done
		s.Text += " is ready"
	default:
		s.State = Waits
		s.Text += " is " + status
	}
	return s
}

// alloc returns the stub of an allocation, nil if the volume has none of it.
func (f VolumeFacts) alloc(id string) *structs.AllocListStub {
	for _, a := range f.Volume.Allocations {
		if a.ID == id {
			return a
		}
	}
	return cmp.Or(f.Volume.ReadAllocs[id], f.Volume.WriteAllocs[id])
}

func (f VolumeFacts) nodeName(allocID string) string {
	a := f.alloc(allocID)
	if a == nil {
		return ""
	}
	return a.NodeName
}

// mount finds the mount of an allocation on a node, or with "" that of the staged volume. known is false if
// the node did not tell.
func (f VolumeFacts) mount(nodeID, allocID string) (m *storage.MountHealth, known bool) {
	if f.Usage == nil {
		return nil, false
	}
	for _, u := range f.Usage.Usages {
		if u.NodeID != nodeID {
			continue
		}
		known = true
		for _, m := range u.Mounts {
			if m.AllocID == allocID {
				return m, true
			}
		}
	}
	return nil, known
}

func (f VolumeFacts) stageStep(c *structs.CSIClaim) Step {
	staged, known := f.mount(c.NodeID, "")
	mounted, _ := f.mount(c.NodeID, c.AllocID)
	if staged == nil && mounted != nil {
		return Step{Name: "Stage", Text: "not needed", State: Skipped}
	}
	return f.knownByTasks(c, staged, mountStep("Stage", "staged", staged, known))
}

func (f VolumeFacts) mountStep(c *structs.CSIClaim) Step {
	m, known := f.mount(c.NodeID, c.AllocID)
	return f.knownByTasks(c, m, mountStep("Mount", "mounted", m, known))
}

// knownByTasks completes a step whose mount the node has not told: tasks run only after it. A node looks at
// its mounts every few seconds, so for a moment it tells of a volume and not yet of each of its mounts. It
// goes on to tell of a mount that is gone.
func (f VolumeFacts) knownByTasks(c *structs.CSIClaim, told *storage.MountHealth, s Step) Step {
	a := f.alloc(c.AllocID)
	if told == nil && a != nil && a.ClientStatus == structs.AllocRunning {
		s.State = Done
		s.Text = "done, because the tasks run"
	}
	return s
}

func mountStep(name, word string, m *storage.MountHealth, known bool) Step {
	switch {
	case m != nil && m.Ill():
		words := m.State + " since " + show.Age(m.Since) + reason(m.Reason)
		if m.Healing != "" {
			words += "; " + m.Healing
		}
		return Step{Name: name, Text: words, State: Waits}
	case m != nil:
		return Step{Name: name, Text: word, State: Done}
	case known:
		return Step{Name: name, Text: "not " + word, State: Waits}
	}
	return Step{Name: name, Text: "not known: the node has not told", State: Unknown}
}

// tasksStep shows the tasks of the allocation by their states.
func (f VolumeFacts) tasksStep(c *structs.CSIClaim) Step {
	a := f.alloc(c.AllocID)
	if a == nil {
		return Step{Name: "Tasks", Text: "not known", State: Unknown}
	}
	s := Step{
		Name:  "Tasks",
		Text:  a.ClientStatus,
		State: Waits,
		Link:  To(AllocPath, a.Namespace, a.ID),
	}
	if a.ClientStatus == structs.AllocRunning {
		s.State = Done
	}
	var tasks []string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		if state := a.TaskStates[name]; state != nil {
			tasks = append(tasks, name+" "+state.State)
		}
	}
	if len(tasks) > 0 {
		s.Text += ": " + show.JoinComma(tasks...)
	}
	return s
}

// The shares of a volume from which its use is shown as high, in percent.
const (
	nearlyFull = 85
	full       = 95
)

func usagesOf(all *storage.VolumeUsageResponse) (list []Usage) {
	if all == nil {
		return nil
	}
	for _, u := range all.Usages {
		list = append(list, usage(u))
	}
	return list
}

func usage(u *storage.VolumeUsage) Usage {
	shown := Usage{Node: show.ShortID(u.NodeID), NodeTo: To(NodePath, "", u.NodeID)}
	if u.Bytes == nil {
		shown.Text = cmp.Or(u.Error, "not known")
		return shown
	}
	shown.Percent = min(100, int(u.Bytes.Percent()))
	shown.Text = fmt.Sprintf("%s of %s are in use (%d %%)", structs.FormatBytes(u.Bytes.Used),
		structs.FormatBytes(u.Bytes.Used+u.Bytes.Available), shown.Percent)
	switch {
	case shown.Percent >= full:
		shown.Tone = Bad
	case shown.Percent >= nearlyFull:
		shown.Tone = Busy
	default:
		shown.Tone = Good
	}
	if u.Error != "" {
		shown.Text += "; the last measurement failed: " + u.Error
	}
	return shown
}

var snapshotColumns = show.Snapshots.Pick("Name|State|Size|Taken|Last Error=Last error")

func snapshotTable(all []*storage.VolumeSnapshot) Table {
	t := Table{
		Caption: "Snapshots",
		Columns: snapshotColumns.Titles,
		Empty:   "The volume has no snapshots.",
	}
	for _, s := range all {
		t.Rows = append(t.Rows, Row{Key: s.Name, Cells: cells(snapshotColumns, s, nil)})
	}
	return t
}
