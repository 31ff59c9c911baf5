package nomad

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"

	"berth/convert/jobfile"
	"berth/convert/report"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// Options are the choices of the user.
type Options struct {
	Address   string
	Token     string
	TLS       *tls.Config // nil for the authorities of the machine
	Variables bool        // read variables, too
}

// Migrate reads a cluster and writes files and the report into the folder. An error ends it: a single
// object that cannot be read or written is in the report instead.
func Migrate(ctx context.Context, o Options, to *report.Folder) (*report.Report, error) {
	c, err := newClient(o.Address, o.Token, o.TLS)
	if err != nil {
		return nil, err
	}
	m := &migration{
		client: c,
		to:     to,
		report: &report.Report{Source: c.base.Redacted()},
	}
	steps := []func(context.Context) error{m.namespaces, m.volumes, m.hostVolumes, m.jobs, m.policies}
	if o.Variables {
		steps = append(steps, m.variables)
	} else {
		m.report.Notes = append(m.report.Notes, "variables are not read without -variables")
	}
	for _, step := range steps {
		err = step(ctx)
		if err != nil {
			return nil, err
		}
	}
	return m.report, m.writeReport()
}

// migration is one run.
type migration struct {
	client *client
	to     *report.Folder
	report *report.Report
}

// The files of the report, which a forced run replaces.
const (
	reportText = "report.md"
	reportData = "report.json"
)

// mostLeft is the most files of an earlier run that the report names.
const mostLeft = 50

// noteLeft names the files of the folder that are not of this run: a user would take them for its own.
func (m *migration) noteLeft() {
	left := slices.DeleteFunc(m.to.Left(), func(name string) bool {
		return name == reportText || name == reportData
	})
	for i, name := range left {
		note := "the file " + name + " was in the folder before: it is of no object here"
		if i == mostLeft {
			note = fmt.Sprintf("%d more files were in the folder before", len(left)-i)
		}
		m.report.Notes = append(m.report.Notes, note)
		if i == mostLeft {
			return
		}
	}
}

func (m *migration) writeReport() error {
	m.noteLeft()
	err := m.to.Write(reportText, m.report.Markdown())
	if err != nil {
		return err
	}
	text, err := m.report.JSON()
	if err != nil {
		return err
	}
	return m.to.Write(reportData, text)
}

// write writes the file of an object.
func (m *migration) write(item *report.Item, name string, text []byte) error {
	item.File = name
	return m.to.Write(name, text)
}

// unread returns nil for an error of one object, which the report has, and other errors as they are. A
// list that the token may not read is a note on the whole.
func (m *migration) unread(err error, noun string) error {
	switch {
	case hasStatus(err, http.StatusForbidden):
		m.report.Notes = append(m.report.Notes, noun+" are not read: the token has no right to it")
	case hasStatus(err, http.StatusNotFound, http.StatusBadRequest, http.StatusNotImplemented):
		m.report.Notes = append(m.report.Notes, noun+" are not read: the cluster has none: "+err.Error())
	default:
		return err
	}
	return nil
}

func (m *migration) namespaces(ctx context.Context) error {
	var all []*struct {
		Name         string
		Description  string
		Meta         map[string]string
		Quota        string
		Capabilities *cluster.NamespaceCapabilities
	}
	_, err := m.client.get(ctx, "/v1/namespaces", nil, &all)
	if err != nil {
		return m.unread(err, "namespaces")
	}
	for _, n := range all {
		if n == nil || n.Name == structs.DefaultNamespace {
			continue
		}
		item := m.report.Add("namespace", "", n.Name)
		if n.Quota != "" {
			item.Add(report.Warnings, "it has a quota: make the quota "+n.Quota+" before, or leave it out")
		}
		text := jobfile.Namespace(&cluster.Namespace{
			Name:         n.Name,
			Description:  n.Description,
			Meta:         n.Meta,
			Quota:        n.Quota,
			Capabilities: n.Capabilities,
		})
		err = m.write(item, path.Join("namespaces", report.FileName(n.Name)+".hcl"), text)
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *migration) volumes(ctx context.Context) error {
	k := kind{name: "volume", list: "/v1/volumes", typ: structs.VolumeTypeCSI, object: "/v1/volume/csi/"}
	return each(ctx, m, k, m.volume)
}

// volume has the fields of a volume of the dialect that a file has.
type volume struct {
	Name                  string
	ExternalID            string
	PluginID              string
	RequestedTopologies   *structs.CSITopologyRequest
	MountOptions          *structs.CSIMountOptions
	Secrets               map[string]string
	Parameters            map[string]string
	Context               map[string]string
	RequestedCapacityMin  int64
	RequestedCapacityMax  int64
	RequestedCapabilities []*structs.CSIVolumeCapability
	AccessMode            structs.CSIAccessMode
	AttachmentMode        structs.CSIAttachmentMode
}

// redacted is the text in the place of values that the dialect does not show.
const redacted = "[REDACTED]"

func (m *migration) volume(item *report.Item, s *stub, v *volume) error {
	row := &structs.CSIVolume{
		ID: s.ID, Namespace: s.Namespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:                  v.Name,
			PluginID:              v.PluginID,
			ExternalID:            v.ExternalID,
			RequestedTopologies:   v.RequestedTopologies,
			MountOptions:          v.MountOptions,
			Parameters:            v.Parameters,
			Context:               v.Context,
			RequestedCapacityMin:  v.RequestedCapacityMin,
			RequestedCapacityMax:  v.RequestedCapacityMax,
			RequestedCapabilities: v.RequestedCapabilities,
		},
	}
	// A volume that was registered long ago has its modes in the former fields.
	if len(row.RequestedCapabilities) == 0 && v.AccessMode != "" {
		row.RequestedCapabilities = []*structs.CSIVolumeCapability{{
			AccessMode:     v.AccessMode,
			AttachmentMode: v.AttachmentMode,
		}}
	}
	if len(v.Secrets) > 0 {
		item.Add(report.Warnings, "its secrets cannot be read: write secrets_from with a variable, or secrets")
	}
	if o := v.MountOptions; o != nil && len(o.MountFlags) > 0 {
		row.MountOptions = &structs.CSIMountOptions{FSType: o.FSType}
		item.Add(report.Warnings, "its mount_flags cannot be read, because they may have secrets: write them into mount_options")
	}
	err := validate.Volume(row)
	if err != nil {
		item.Add(report.Not, err.Error())
	}
	text := jobfile.Volume(row, item.Notes)
	return m.write(item, path.Join("volumes", report.FileName(s.Namespace), report.FileName(s.ID)+".hcl"), text)
}

// variable has the fields of a variable that a file has.
type variable struct {
	Namespace string
	Path      string
	Items     map[string]string
}

func (m *migration) variables(ctx context.Context) error {
	return each(ctx, m, kind{name: "variable", list: "/v1/vars", object: "/v1/var/"}, m.variable)
}

func (m *migration) variable(item *report.Item, s *stub, v *variable) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return structs.Invalidf("the variable %s: %w", s.Path, err)
	}
	name := path.Join("variables", report.FileName(s.Namespace), report.FileName(s.Path)+".json")
	return m.write(item, name, append(text, '\n'))
}
