package interop

import (
	public "github.com/hashicorp/nomad/api"
)

// quotaCalls write, read and delete a quota.
var quotaCalls = []callRow{
	{"Quotas.Register", func(f *callFixture) error {
		_, err := f.c.Quotas().Register(&public.QuotaSpec{
			Name: "calls",
			Limits: []*public.QuotaLimit{{
				Region:      "global",
				RegionLimit: &public.QuotaResources{CPU: new(1000)},
			}},
		}, nil)
		return err
	}},
	{"Quotas.List", func(f *callFixture) error {
		all, _, err := f.c.Quotas().List(nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Name == "calls" }, all)
	}},
	{"Quotas.PrefixList", func(f *callFixture) error {
		all, _, err := f.c.Quotas().PrefixList("ca", nil)
		return check(err, func() bool { return len(all) == 1 }, all)
	}},
	{"Quotas.ListUsage", func(f *callFixture) error {
		all, _, err := f.c.Quotas().ListUsage(nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Name == "calls" }, all)
	}},
	{"Quotas.PrefixListUsage", func(f *callFixture) error {
		all, _, err := f.c.Quotas().PrefixListUsage("ca", nil)
		return check(err, func() bool { return len(all) == 1 }, all)
	}},
	{"Quotas.Info", func(f *callFixture) error {
		q, _, err := f.c.Quotas().Info("calls", nil)
		return check(err, func() bool { return *q.Limits[0].RegionLimit.CPU == 1000 }, q)
	}},
	{"Quotas.Usage", func(f *callFixture) error {
		u, _, err := f.c.Quotas().Usage("calls", nil)
		return check(err, func() bool { return u.Name == "calls" }, u)
	}},
	{"Quotas.Delete", func(f *callFixture) error {
		_, err := f.c.Quotas().Delete("calls", nil)
		return err
	}},
}
