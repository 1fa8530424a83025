package redisfailures

import "authguard/internal/redisscript"

// The scripts that need no ladder work on one place: KEYS are its book and the
// own keys of the subjects kept with it, and ARGV[1] and after are their tags.
const (
	// readLua answers with the time, the book and the own keys.
	readLua = `local out=redis.call('MGET',unpack(KEYS))
table.insert(out,1,now)
return out
`
	// clearLua forgets the subjects, and the place itself if the argument
	// after the tags is 1. It answers like readLua, with what was there.
	clearLua = `local find,sub,byte=string.find,string.sub,string.byte
local out=redis.call('MGET',unpack(KEYS))
local book=out[1] or '\0\0'
local sections=sub(book,3,2+struct.unpack('<I2',book))
local main=sub(book,3+#sections)
if ARGV[#KEYS]=='1' then main='' end
for k=2,#KEYS do
 local i=find(sections,ARGV[k-1],1,true)
 if i then sections=sub(sections,1,i-1)..sub(sections,i+9+4*byte(sections,i+8)) end
 if out[k] then redis.call('DEL',KEYS[k]) end
end
local new=struct.pack('<I2',#sections)..sections..main
if #new==2 then redis.call('DEL',KEYS[1])
elseif new~=book then redis.call('SET',KEYS[1],new,'KEEPTTL') end
table.insert(out,1,now)
return out
`
	// takeBackLua removes one charge from each of the subjects, and from the
	// place itself if the argument after the tags is 1. The two arguments that
	// follow are the charge's stamp and the age beyond which it was a failure.
	// If it was, the script answers like readLua, with what was there; else
	// with the time alone.
	takeBackLua = `local u,find,sub,byte,wrap=struct.unpack,string.find,string.sub,string.byte,4294967296
local n=#KEYS
local at,late=tonumber(ARGV[n+1]),now-ARGV[n+1]>tonumber(ARGV[n+2])
local out=redis.call('MGET',unpack(KEYS))
local book=out[1] or '\0\0'
local sections=sub(book,3,2+u('<I2',book))
local main=sub(book,3+#sections)
local function without(charges)
 for i=#charges-3,1,-4 do
  local younger=(u('<I4',charges,i)-at)%wrap
  if younger==0 then return sub(charges,1,i-1)..sub(charges,i+4) end
  if younger>=2147483648 then break end
 end
 return charges
end
if ARGV[n]=='1' then main=without(main) end
for k=2,n do
 local own,tag=out[k],ARGV[k-1]
 local i=not own and find(sections,tag,1,true)
 if own then
  local left=without(own)
  if left=='' then redis.call('DEL',KEYS[k])
  elseif left~=own then redis.call('SET',KEYS[k],left,'KEEPTTL') end
 elseif i then
  local last=i+8+4*byte(sections,i+8)
  local left=without(sub(sections,i+9,last))
  if left~='' then left=tag..string.char(#left/4)..left end
  sections=sub(sections,1,i-1)..left..sub(sections,last+1)
 end
end
local new=struct.pack('<I2',#sections)..sections..main
if #new==2 then redis.call('DEL',KEYS[1])
elseif new~=book then redis.call('SET',KEYS[1],new,'KEEPTTL') end
if not late then return {now} end
table.insert(out,1,now)
return out
`
)

// fixed are the scripts that need no ladder.
type fixed struct{ read, clear, takeBack *redisscript.Script }

func newFixed(clock string) fixed {
	return fixed{redisscript.New(clock + readLua), redisscript.New(clock + clearLua), redisscript.New(clock + takeBackLua)}
}
