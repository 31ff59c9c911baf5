package config

import (
	"fmt"
	"reflect"
)

// Copy returns a deep copy: a nil map, slice or pointer copies to nil, an empty one to an empty one.
func (c *Config) Copy() *Config {
	return deepCopy(reflect.ValueOf(c)).Interface().(*Config)
}

// deepCopy copies plain data, whatever settings other packages put into theirs. A kind that is not plain
// data panics, in the first test.
func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Float64, reflect.Uint8,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		if v.IsNil() {
			return v
		}
	}
	c := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(deepCopy(v.Elem()))
	case reflect.Interface:
		c.Set(deepCopy(v.Elem()))
	case reflect.Map:
		c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for k, e := range v.Seq2() {
			c.SetMapIndex(k, deepCopy(e))
		}
	case reflect.Slice:
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(deepCopy(v.Field(i)))
		}
	default:
		panic(fmt.Sprintf("a setting is of kind %s: a configuration is plain data", v.Kind()))
	}
	return c
}
