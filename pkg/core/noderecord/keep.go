package noderecord

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// A newer version may write fields that this one does not know. It adds fields, and never changes what one means; so this
// one goes on with the rest, and keeps them where they are: rolled back and upgraded again, nothing is lost.

// EncodeOver is Encode, with the fields of the text that it replaces that this version does not know: of the record, and of
// the packages that are still in it. A text that cannot be read has none.
func EncodeOver(old string, r Record) string {
	var was map[string]json.RawMessage
	if json.Unmarshal([]byte(old), &was) != nil {
		return Encode(r)
	}
	var packages map[string]map[string]json.RawMessage
	_ = json.Unmarshal(was["packages"], &packages) // none: nothing to keep
	kept, found := unknown(was, reflect.TypeFor[Record]()), false
	delete(kept, "schema")
	inPackages := map[string]map[string]json.RawMessage{}
	for name := range r.Packages {
		if k := unknown(packages[name], reflect.TypeFor[Package]()); len(k) > 0 {
			inPackages[name], found = k, true
		}
	}
	if len(kept) == 0 && !found {
		return Encode(r)
	}
	return merged(r, kept, inPackages)
}

// merged writes a record with more fields.
func merged(r Record, more map[string]json.RawMessage, inPackages map[string]map[string]json.RawMessage) string {
	out := fieldsOf(numbered{Schema, r})
	packages := map[string]json.RawMessage{}
	for name, p := range r.Packages {
		fields := fieldsOf(p)
		maps.Copy(fields, inPackages[name])
		packages[name] = encoded(fields)
	}
	if len(packages) > 0 {
		out["packages"] = encoded(packages)
	}
	maps.Copy(out, more)
	return string(encoded(out))
}

func fieldsOf(v any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	_ = json.Unmarshal(encoded(v), &out) // it was marshalled here
	return out
}

func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil { // plain data always marshals
		panic("write record: " + err.Error())
	}
	return data
}

// unknown are the fields of a JSON object that a struct does not have.
func unknown(fields map[string]json.RawMessage, known reflect.Type) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	maps.Copy(out, fields)
	for i := range known.NumField() {
		name, _, _ := strings.Cut(known.Field(i).Tag.Get("json"), ",")
		delete(out, name)
	}
	return out
}
