package pages

import (
	"net/url"

	"github.com/a-h/templ"

	"berth/structs"
	_ "berth/ui/pages/compiled" // before templ
	"berth/ui/views"
)

// Frame is the data of the frame around a view.
type Frame struct {
	Title     string
	Agent     string
	Views     []Link
	Namespace string
	LoggedIn  bool
	Here      string // the path and the parameters of the view
	Topics    string // of events after which it is read again; "" for none
}

// login returns the path of the form for a login that leads back to the view.
func (f Frame) login() string { return "/ui/login?" + url.Values{"next": {f.Here}}.Encode() }

// Content is the part of the page that a view fills. Before and After are nil for nothing. The script
// replaces Rows when they are read again, so all that a user types is in Before.
type Content struct {
	Before templ.Component
	Rows   templ.Component
	After  templ.Component
}

// Link is a path of the page with its name. Current is for an entry of the navigation: the view is shown.
type Link struct {
	Name    string
	To      string
	Current bool
}

// Property is a line of a list of facts.
type Property struct{ Name, Value string }

// Choice is an entry of a list of choices.
type Choice struct {
	Name   string
	Value  string
	Filter string // of the API; "" for all rows
	Chosen bool
}

// Form is the data of the form above a list.
type Form struct {
	Path      string
	Namespace string // "" if the rows have no namespaces
	Search    string
	Shows     []Choice // which rows; each has a filter
	Orders    []Choice
	Filter    string
	PerPage   int
}

// Listing is the data of a list of rows.
type Listing struct {
	Table views.Table
	First string // the path of the first page, "" if this is it
	Next  string // the path of the next page, "" for none
}

// Confirmation is the data of the view that confirms an action.
type Confirmation struct {
	Fault    string // of the action
	Do       string
	ID       string
	Space    string // the namespace
	Node     string
	Title    string // of the button
	Synopsis string // the words of the command
	Help     string
	Command  string // does the same on the command line
	Notes    []string
	Created  uint64 // of the row that the caller has seen, 0 for none
	Epoch    uint64
	Allocs   string   // the allocations that the caller is shown, with spaces between them
	Reasons  []string // of which the caller chooses one
	From     string
	Back     string // the path of the view that is shown next
}

// Method is an auth method in the form for a login.
type Method struct {
	Name string
	To   string // the path at which a login by OIDC begins, "" for one by a JWT
}

// LoginForm is the data of the form for a login.
type LoginForm struct {
	Fault string // why the form is shown again, or why the view needs a token
	Next  string // the view to show after the login
	// Methods are the auth methods of the cluster.
	Methods []Method
}

// TaskLog is the data of the view of a log.
type TaskLog struct {
	Text    string // the last lines
	Stream  string // the address from which the script follows the log
	Other   Link   // the other output
	Back    string
	Command string
}

// TaskExec is the data of the view of a command in a task.
type TaskExec struct {
	Socket  string // the address of the websocket
	Back    string
	Command string
}

// Problems is the data of the view of all problems.
type Problems struct {
	Heading  string // the kinds
	Problems []views.Problem
	// More are the kinds of which there are more, with the view that has them.
	More   []Link
	Faults []string // of the kinds that could not be read
}

// Thing is the data of the view of one thing.
type Thing struct {
	Faults     []string // of the parts that could not be read
	Problems   []string
	Why        []*structs.Reason // nil: the view has no such part
	Command    string            // shows the same on the command line
	Actions    []Link
	Properties []Property
	Tables     []views.Table
}

// Volume is the data of the view of one volume.
type Volume struct {
	*views.Picture
	Why        []*structs.Reason
	Command    string   // shows the same on the command line
	Faults     []string // of the parts that could not be read
	Actions    []Link
	Properties []Property
}

// Cluster is the data of the picture of the cluster.
type Cluster struct {
	Faults      []string
	Datacenters []views.Datacenter
	More        string // the path of the list of all nodes, "" if the picture has them all
}

// stateOf says in which state a volume is, and how it is in use.
func stateOf(v *structs.CSIVolumeDetail) string {
	if v.AccessMode == "" {
		return v.State
	}
	return v.State + ", in use as " + string(v.AccessMode)
}

// modeOf says for what a claim is, and that it ends.
func modeOf(c views.Chain) string {
	if c.Released {
		return c.Mode + ", being released"
	}
	return c.Mode
}

// wordsOf says how far a step is.
func wordsOf(s views.StepState) string {
	if s == views.Waits {
		return "waits here"
	}
	return string(s)
}
