package nomad

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth/acl"
	"berth/convert/report"
)

func (m *migration) policies(ctx context.Context) error {
	var all []*struct{ Name string }
	_, err := m.client.get(ctx, "/v1/acl/policies", nil, &all)
	if err != nil {
		return m.unread(err, "policies")
	}
	for _, p := range all {
		if p == nil {
			continue
		}
		item := m.report.Add("policy", "", p.Name)
		var whole struct {
			Rules  string
			JobACL *struct{ Namespace, JobID, Group, Task string }
		}
		_, err = m.client.get(ctx, "/v1/acl/policy/"+url.PathEscape(p.Name), nil, &whole)
		if err != nil {
			item.Add(report.Not, "it was not read: "+err.Error())
			continue
		}
		if whole.JobACL != nil {
			item.Add(report.Warnings, "it is bound to the tasks of the job "+whole.JobACL.JobID+
				": apply it with -job, -group and -task")
		}
		policy, err := acl.Parse(p.Name, whole.Rules)
		if err != nil {
			item.Add(report.Not, err.Error())
		} else {
			lessThanThere(item, policy)
		}
		err = m.write(item, path.Join("policies", report.FileName(p.Name)+".hcl"), []byte(whole.Rules))
		if err != nil {
			return err
		}
	}
	return nil
}

// rightsOfTheirOwn are rights that a right of the dialect includes there, and not in berth.
var rightsOfTheirOwn = []struct {
	there  acl.Capability
	here   []string // capabilities
	effect string
}{
	{
		there:  acl.SubmitJob,
		here:   []string{string(acl.SubmitRawExec), string(acl.SubmitPrivileged)},
		effect: "jobs with raw_exec, and with containers that leave their sandbox",
	},
	{
		there:  acl.CSIWriteVolume,
		here:   []string{string(acl.CSIForceVolume)},
		effect: "volumes that are registered by an external_id, and a detach by force",
	},
}

// lessThanThere warns of each rule that gives more in the dialect than in berth.
func lessThanThere(item *report.Item, p *acl.Policy) {
	for _, r := range p.Namespaces {
		if r.Policy == string(acl.Deny) || slices.Contains(r.Capabilities, acl.Deny) {
			continue
		}
		for _, own := range rightsOfTheirOwn {
			gives := r.Policy == "write" || slices.Contains(r.Capabilities, own.there)
			lacking := slices.DeleteFunc(slices.Clone(own.here), func(c string) bool {
				return slices.Contains(r.Capabilities, acl.Capability(c))
			})
			if gives && len(lacking) > 0 {
				item.Add(report.Warnings, "namespace "+strconv.Quote(r.Pattern)+" allows there, and not in berth, "+
					own.effect+": add "+strings.Join(lacking, " and ")+" to its capabilities for users who need that")
			}
		}
	}
}
