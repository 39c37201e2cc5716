package main

// word is a part of a name, and how it is written in an address.
type word struct{ name, ascii string }

// group is people who share names and providers.
type group struct {
	first, last []word
	domains     []string
	familyFirst bool // written without a space, the family's name first
}

var people = []group{
	{
		first: []word{
			{"Anna", "anna"},
			{"Jürgen", "juergen"},
			{"Käthe", "kaethe"},
			{"Lukas", "lukas"},
			{"Sören", "soeren"},
			{"Mia", "mia"},
			{"Jörg", "joerg"},
			{"Bärbel", "baerbel"},
			{"Felix", "felix"},
			{"Zoë", "zoe"},
		},
		last: []word{
			{"Müller", "mueller"},
			{"Weiß", "weiss"},
			{"Schröder", "schroeder"},
			{"Köhler", "koehler"},
			{"Becker", "becker"},
			{"Großmann", "grossmann"},
			{"Jäger", "jaeger"},
			{"Vogel", "vogel"},
			{"Krüger", "krueger"},
			{"Lang", "lang"},
		},
		domains: []string{"post.example", "bücher.example", "mail.firma.example", "example.org"},
	},
	{
		first: []word{
			{"Olivia", "olivia"},
			{"Liam", "liam"},
			{"Siân", "sian"},
			{"Seán", "sean"},
			{"Grace", "grace"},
			{"Noah", "noah"},
			{"Chloé", "chloe"},
			{"Aoife", "aoife"},
			{"James", "james"},
			{"Renée", "renee"},
		},
		last: []word{
			{"Smith", "smith"},
			{"O’Brien", "obrien"},
			{"Jones", "jones"},
			{"Taylor", "taylor"},
			{"MacLeòid", "macleoid"},
			{"Walker", "walker"},
			{"Clarke", "clarke"},
			{"Hughes", "hughes"},
			{"Ní Bhriain", "nibhriain"},
			{"Green", "green"},
		},
		domains: []string{"example.com", "mail.example", "inbox.example", "example.net"},
	},
	{
		first: []word{
			{"José", "jose"},
			{"María", "maria"},
			{"Íñigo", "inigo"},
			{"Lucía", "lucia"},
			{"Ángel", "angel"},
			{"Begoña", "begona"},
			{"João", "joao"},
			{"Inês", "ines"},
			{"Andrés", "andres"},
			{"Sofía", "sofia"},
		},
		last: []word{
			{"Muñoz", "munoz"},
			{"García", "garcia"},
			{"Peña", "pena"},
			{"Conceição", "conceicao"},
			{"Núñez", "nunez"},
			{"Ibáñez", "ibanez"},
			{"Araújo", "araujo"},
			{"López", "lopez"},
			{"Simões", "simoes"},
			{"Ruiz", "ruiz"},
		},
		domains: []string{"correo.example", "correio.example", "example.com", "example.net"},
	},
	{
		first: []word{
			{"Łukasz", "lukasz"},
			{"Żaneta", "zaneta"},
			{"Jiří", "jiri"},
			{"Božena", "bozena"},
			{"Gyöngyi", "gyongyi"},
			{"Ștefan", "stefan"},
			{"Đorđe", "djordje"},
			{"Šárka", "sarka"},
			{"Ömer", "omer"},
			{"Gülşen", "gulsen"},
		},
		last: []word{
			{"Wójcik", "wojcik"},
			{"Dvořák", "dvorak"},
			{"Nagy", "nagy"},
			{"Ionescu", "ionescu"},
			{"Yılmaz", "yilmaz"},
			{"Świątek", "swiatek"},
			{"Černý", "cerny"},
			{"Kovačević", "kovacevic"},
			{"Őri", "ori"},
			{"Çelik", "celik"},
		},
		domains: []string{"poczta.example", "posta.example", "example.org", "mail.example"},
	},
	{
		first: []word{{"Αλέξης", "alexis"}, {"Ελένη", "eleni"}, {"Γιώργος", "giorgos"}, {"Ζωή", "zoi"}, {"Μαρία", "maria"}},
		last: []word{
			{"Παπαδόπουλος", "papadopoulos"}, {"Νικολάου", "nikolaou"}, {"Βλάχος", "vlachos"}, {"Ρήγας", "rigas"}, {"Αγγέλου", "angelou"},
		},
		domains: []string{"γραμματα.example", "example.com", "inbox.example"},
	},
	{
		first: []word{{"Олена", "olena"}, {"Сергій", "serhii"}, {"Надія", "nadiia"}, {"Тарас", "taras"}, {"Їванна", "yivanna"}},
		last: []word{
			{"Шевченко", "shevchenko"}, {"Коваль", "koval"}, {"Бондар", "bondar"}, {"Мельник", "melnyk"}, {"Ткач", "tkach"},
		},
		domains: []string{"пошта.example", "example.org", "mail.example"},
	},
	{
		first:       []word{{"葵", "aoi"}, {"蓮", "ren"}, {"さくら", "sakura"}, {"大翔", "hiroto"}, {"結衣", "yui"}},
		last:        []word{{"佐藤", "sato"}, {"鈴木", "suzuki"}, {"髙橋", "takahashi"}, {"渡邉", "watanabe"}, {"田中", "tanaka"}},
		domains:     []string{"郵便.example", "mail.example", "example.net"},
		familyFirst: true,
	},
	{
		first:       []word{{"지우", "jiwoo"}, {"민준", "minjun"}, {"서연", "seoyeon"}, {"하준", "hajun"}, {"유나", "yuna"}},
		last:        []word{{"김", "kim"}, {"박", "park"}, {"최", "choi"}, {"이", "lee"}, {"정", "jeong"}},
		domains:     []string{"우편.example", "mail.example", "example.com"},
		familyFirst: true,
	},
	{
		first:       []word{{"伟", "wei"}, {"秀英", "xiuying"}, {"静", "jing"}, {"芳", "fang"}, {"强", "qiang"}},
		last:        []word{{"王", "wang"}, {"李", "li"}, {"陈", "chen"}, {"赵", "zhao"}, {"刘", "liu"}},
		domains:     []string{"mail.example", "example.org", "inbox.example"},
		familyFirst: true,
	},
}
