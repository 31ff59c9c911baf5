package interop

import (
	public "github.com/hashicorp/nomad/api"
)

// variablePath is the path of the variable of variableCalls.
const variablePath = "app/calls"

// variableOf returns the variable with a value.
func variableOf(value string) *public.Variable {
	v := public.NewVariable(variablePath)
	v.Items["user"] = value
	return v
}

// lockedVariable returns a variable with a lock, whose ID is "" before it is acquired.
func lockedVariable(id string) *public.Variable {
	v := public.NewVariable("app/lock")
	v.Lock = &public.VariableLock{ID: id, TTL: "15s", LockDelay: "10s"}
	return v
}

// wantVariable returns an error unless the variable has a value.
func wantVariable(v *public.Variable, err error, value string) error {
	return check(err, func() bool {
		return v.Path == variablePath && v.Items["user"] == value && v.ModifyIndex > 0
	}, v)
}

// variableCalls write, read and lock variables.
var variableCalls = []callRow{
	{"Variables.Create", func(f *callFixture) error {
		v, _, err := f.c.Variables().Create(variableOf("a"), nil)
		return wantVariable(v, err, "a")
	}},
	{"Variables.Update", func(f *callFixture) error {
		v, _, err := f.c.Variables().Update(variableOf("b"), nil)
		return wantVariable(v, err, "b")
	}},
	{"Variables.Read", func(f *callFixture) error {
		v, _, err := f.c.Variables().Read(variablePath, nil)
		return wantVariable(v, err, "b")
	}},
	{"Variables.CheckedUpdate", func(f *callFixture) error {
		v, _, err := f.c.Variables().Read(variablePath, nil)
		if err != nil {
			return err
		}
		v.Items["user"] = "c"
		v, _, err = f.c.Variables().CheckedUpdate(v, nil)
		return wantVariable(v, err, "c")
	}},
	{"Variables.Peek", func(f *callFixture) error {
		v, _, err := f.c.Variables().Peek(variablePath, nil)
		return wantVariable(v, err, "c")
	}},
	{"Variables.GetItems", func(f *callFixture) error {
		items, _, err := f.c.Variables().GetItems(variablePath, nil)
		return check(err, func() bool { return (*items)["user"] == "c" }, items)
	}},
	{"Variables.GetVariableItems", func(f *callFixture) error {
		items, _, err := f.c.Variables().GetVariableItems(variablePath, nil)
		return check(err, func() bool { return items["user"] == "c" }, items)
	}},
	{"Variables.List", func(f *callFixture) error {
		list, _, err := f.c.Variables().List(nil)
		return check(err, func() bool { return len(list) == 1 && list[0].Path == variablePath }, list)
	}},
	{"Variables.PrefixList", func(f *callFixture) error {
		list, _, err := f.c.Variables().PrefixList("app/", nil)
		return check(err, func() bool { return len(list) == 1 && list[0].Path == variablePath }, list)
	}},
	{"Variables.CheckedDelete", func(f *callFixture) error {
		v, _, err := f.c.Variables().Read(variablePath, nil)
		if err != nil {
			return err
		}
		_, err = f.c.Variables().CheckedDelete(variablePath, v.ModifyIndex, nil)
		return err
	}},
	{"Variables.CheckedCreate", func(f *callFixture) error {
		v, _, err := f.c.Variables().CheckedCreate(variableOf("d"), nil)
		return wantVariable(v, err, "d")
	}},
	{"Variables.Delete", func(f *callFixture) error {
		_, err := f.c.Variables().Delete(variablePath, nil)
		return err
	}},
	{"Variables.AcquireLock", func(f *callFixture) error {
		v, _, err := f.c.Variables().AcquireLock(lockedVariable(""), nil)
		err = check(err, func() bool { return v.LockID() != "" }, v)
		if err == nil {
			f.lock = v.LockID()
		}
		return err
	}},
	{"Variables.RenewLock", func(f *callFixture) error {
		meta, _, err := f.c.Variables().RenewLock(lockedVariable(f.lock), nil)
		return check(err, func() bool { return meta.Path == "app/lock" }, meta)
	}},
	{"Variables.ReleaseLock", func(f *callFixture) error {
		v, _, err := f.c.Variables().ReleaseLock(lockedVariable(f.lock), nil)
		return check(err, func() bool { return v.Lock == nil }, v)
	}},
}
