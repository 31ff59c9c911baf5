package nomad

import (
	"context"
	"net/url"
	"path"

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
		_, err = acl.Parse(p.Name, whole.Rules)
		if err != nil {
			item.Add(report.Not, err.Error())
		}
		err = m.write(item, path.Join("policies", report.FileName(p.Name)+".hcl"), []byte(whole.Rules))
		if err != nil {
			return err
		}
	}
	return nil
}
